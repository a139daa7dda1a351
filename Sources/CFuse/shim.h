// What Swift cannot import from libfuse by itself: macros, bit-field initialisers and variadics.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

static inline struct fuse_bufvec docsfs_bufvec_fd(int fd, off_t offset, size_t size) {
  struct fuse_bufvec v = FUSE_BUFVEC_INIT(size);
  v.buf[0].flags = (enum fuse_buf_flags)(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK | FUSE_BUF_FD_RETRY);
  v.buf[0].fd = fd;
  v.buf[0].pos = offset;
  return v;
}

// Plain <fcntl.h> hides it behind _GNU_SOURCE.
ssize_t splice(int from, off_t *a, int to, off_t *b, size_t n, unsigned flags);

// Passthrough (Linux 6.9), which the headers of older kernels and libfuse 3.14 do not know.
#define DOCSFS_FOPEN_PASSTHROUGH (1u << 7)
struct docsfs_backing_map {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};

/// Lets the kernel read and write the file `fd` by itself: a number for it, or -1.
static inline int docsfs_backing_open(int device, int fd) {
  struct docsfs_backing_map map = {.fd = fd};
  return ioctl(device, _IOW(229, 1, struct docsfs_backing_map), &map);
}

static inline int docsfs_backing_close(int device, uint32_t number) {
  return ioctl(device, _IOW(229, 2, uint32_t), &number);
}

static inline struct fuse_args docsfs_args(int argc, char **argv) {
  struct fuse_args a = FUSE_ARGS_INIT(argc, argv);
  return a;
}
