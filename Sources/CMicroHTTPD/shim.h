#pragma once
#include <microhttpd.h>

// Swift imports no variadic function. One thread serves; a client that does not go on within 10 seconds is let go, and
// more than 16 wait.
static inline struct MHD_Daemon *cm_start(int listener, MHD_AccessHandlerCallback handler, void *context) {
  return MHD_start_daemon(
      MHD_USE_AUTO_INTERNAL_THREAD, 0, NULL, NULL, handler, context,
      MHD_OPTION_LISTEN_SOCKET, (MHD_socket)listener,
      MHD_OPTION_CONNECTION_LIMIT, 16u,
      MHD_OPTION_CONNECTION_TIMEOUT, 10u,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32 << 10,
      MHD_OPTION_END);
}
