#define _GNU_SOURCE
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <wchar.h>

int lx_open_beneath(int dirfd, const char *path, int flags, mode_t mode) {
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
      .mode = (flags & (O_CREAT | __O_TMPFILE)) ? mode : 0,
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof how);
}

int lx_open(const char *path, int flags, mode_t mode) { return open(path, flags | O_CLOEXEC, mode); }

int lx_openat(int dirfd, const char *path, int flags, mode_t mode) {
  return openat(dirfd, path, flags | O_CLOEXEC, mode);
}

int lx_renameat2(int from, const char *a, int to, const char *b, unsigned flags) {
  return renameat2(from, a, to, b, flags);
}

int lx_file_handle(int dirfd, const char *name, int flags, unsigned char *out) {
  union {
    struct file_handle h;
    char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
  } u;
  int mount_id = 0;
  u.h.handle_bytes = MAX_HANDLE_SZ;
  if (name_to_handle_at(dirfd, name, &u.h, &mount_id, flags) != 0) return -1;
  memcpy(out, &u.h.handle_type, 4);
  memcpy(out + 4, u.h.f_handle, u.h.handle_bytes);
  return (int)(4 + u.h.handle_bytes);
}

int lx_clone(int to, int from) { return ioctl(to, FICLONE, from); }

ssize_t lx_copy_file_range(int from, off_t *a, int to, off_t *b, size_t n) {
  return copy_file_range(from, a, to, b, n, 0);
}

int lx_fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }
int lx_syncfs(int fd) { return syncfs(fd); }
int lx_lock_file(int fd) { return flock(fd, LOCK_EX | LOCK_NB); }
int lx_lock_shared(int fd) {
  int r;
  do {
    r = flock(fd, LOCK_SH);
  } while (r != 0 && errno == EINTR);
  return r;
}

int lx_lock_byte(int fd, off_t offset) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = offset, .l_len = 1};
  int r;
  do {
    r = fcntl(fd, F_OFD_SETLKW, &lock);
  } while (r != 0 && errno == EINTR);
  return r;
}

int lx_lease(int fd) {
  if (fcntl(fd, F_SETSIG, SIGURG) != 0) return -1;
  return fcntl(fd, F_SETLEASE, F_RDLCK);
}

int lx_unlease(int fd) { return fcntl(fd, F_SETLEASE, F_UNLCK); }

long lx_file_system_type(const char *path) {
  struct statfs info;
  return statfs(path, &info) == 0 ? (long)info.f_type : -1;
}

int lx_gettid(void) { return (int)syscall(SYS_gettid); }
int lx_umount(const char *path, int lazy) { return umount2(path, lazy ? MNT_DETACH : 0); }
void lx_thread_background(void) { setpriority(PRIO_PROCESS, (id_t)lx_gettid(), 10); }
void lx_thread_name(const char *name) { prctl(PR_SET_NAME, name); }

int lx_unix_address(struct sockaddr_un *a, int dirfd, const char *name) {
  memset(a, 0, sizeof *a);
  a->sun_family = AF_UNIX;
  int n = snprintf(a->sun_path, sizeof a->sun_path, "/proc/self/fd/%d/%s", dirfd, name);
  return n > 0 && (size_t)n < sizeof a->sun_path ? 0 : -1;
}

int lx_bind(int s, const struct sockaddr_un *a) { return bind(s, (const struct sockaddr *)a, sizeof *a); }
int lx_connect(int s, const struct sockaddr_un *a) { return connect(s, (const struct sockaddr *)a, sizeof *a); }

int lx_peer(int s, uid_t *uid, pid_t *pid) {
  struct ucred c;
  socklen_t n = sizeof c;
  if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &c, &n) != 0) return -1;
  *uid = c.uid;
  *pid = c.pid;
  return 0;
}

void lx_argp_error(const struct argp_state *s, const char *text) { argp_error(s, "%s", text); }

void lx_argp_help(const struct argp *a, const char *name) {
  char *copy = strdup(name);
  if (copy) argp_help(a, stdout, ARGP_HELP_STD_HELP & ~(ARGP_HELP_EXIT_OK | ARGP_HELP_EXIT_ERR), copy);
  fflush(stdout);
  free(copy);
}

char **lx_environment(void) { return environ; }
int lx_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC); }
int lx_spawn_close_from(posix_spawn_file_actions_t *actions, int first) {
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

int lx_accept(int s) { return accept4(s, NULL, NULL, SOCK_CLOEXEC); }
void lx_socket_timeout(int s, int seconds) {
  struct timeval t = {.tv_sec = seconds};
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}
ssize_t lx_readlink(const char *path, void *room, size_t size) { return readlink(path, room, size); }
int lx_unix_socket(void) { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }
int lx_columns(uint32_t character) {
  int columns = wcwidth((wchar_t)character);
  return columns < 0 ? 1 : columns;
}
int lx_socket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0); }

int lx_bind_port(int s, int family, const char *address, uint16_t port) {
  struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
  struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  struct sockaddr *a = family == AF_INET6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
  socklen_t size = family == AF_INET6 ? sizeof a6 : sizeof a4;
  if (inet_pton(family, address, family == AF_INET6 ? (void *)&a6.sin6_addr : (void *)&a4.sin_addr) != 1) {
    errno = EINVAL;
    return -1;
  }
  // Connections of a daemon that has just ended do not keep its port.
  int yes = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(s, a, size) || getsockname(s, a, &size)) return -1;
  return ntohs(family == AF_INET6 ? a6.sin6_port : a4.sin_port);
}

// The older calls are missing on newer machines.
int lx_call_asks_attributes(long number) {
  switch (number) {
#ifdef SYS_stat
    case SYS_stat:
    case SYS_lstat:
    case SYS_access:
#endif
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
    case SYS_faccessat2:
      return 1;
    default:
      return 0;
  }
}

int lx_call_is_by_descriptor(long number, const unsigned long arguments[6]) {
  switch (number) {
    case SYS_fstat:
    case SYS_fstatfs:
    case SYS_ftruncate:
    case SYS_fchmod:
    case SYS_fchown:
    case SYS_fsetxattr:
    case SYS_fgetxattr:
    case SYS_flistxattr:
    case SYS_fremovexattr:
    case SYS_lseek:
    case SYS_read:
    case SYS_write:
    case SYS_getdents64:
      return 1;
    case SYS_newfstatat:
      return (arguments[3] & AT_EMPTY_PATH) != 0;
    case SYS_statx:
      return (arguments[2] & AT_EMPTY_PATH) != 0;
    case SYS_utimensat:
      return arguments[1] == 0;
    default:
      return 0;
  }
}
