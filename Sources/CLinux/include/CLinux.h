// Linux calls that plain Glibc hides behind _GNU_SOURCE, or whose macros and variadics Swift cannot import.
// Each returns what its call returns, and leaves errno as that call does. Descriptors are opened O_CLOEXEC.
//
// No _GNU_SOURCE here: its other layout of common structs would clash with Swift's Glibc module.
#pragma once
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum {
  LX_O_PATH = 010000000,
  LX_O_DIRECT = 040000,
  LX_O_TMPFILE = 020000000 | 0200000,
  LX_AT_EMPTY_PATH = 0x1000,
  LX_SEEK_DATA = 3,
  LX_SEEK_HOLE = 4,
  LX_RENAME_NOREPLACE = 1,
  LX_RENAME_EXCHANGE = 2,
  LX_FALLOC_KEEP_SIZE = 1,
  LX_FALLOC_PUNCH_HOLE = 2,
  LX_FALLOC_COLLAPSE_RANGE = 8,
  LX_FALLOC_ZERO_RANGE = 16,
  LX_FALLOC_INSERT_RANGE = 32,
};

/// openat2(2) below `dirfd`: neither `..` nor any symlink is followed, so no name can leave the tree.
int lx_open_beneath(int dirfd, const char *path, int flags, mode_t mode);
int lx_open(const char *path, int flags, mode_t mode);
int lx_openat(int dirfd, const char *path, int flags, mode_t mode);
int lx_renameat2(int from, const char *a, int to, const char *b, unsigned flags);

/// The file handle of `name` below `dirfd` into `out` (room for 136 bytes: 4 of type, then the handle).
/// Its length, or -1. `flags` as name_to_handle_at(2) takes them.
int lx_file_handle(int dirfd, const char *name, int flags, unsigned char *out);

/// ioctl FICLONE: `to` shares all blocks of `from`, where the file system can.
int lx_clone(int to, int from);
ssize_t lx_copy_file_range(int from, off_t *a, int to, off_t *b, size_t n);
int lx_fallocate(int fd, int mode, off_t offset, off_t length);
int lx_syncfs(int fd);
/// flock(2), exclusive, without waiting.
int lx_lock_file(int fd);
/// flock(2), shared, waiting for one who holds it exclusively.
int lx_lock_shared(int fd);
/// Locks one byte exclusively for this open file, waiting for whoever holds it (fcntl F_OFD_SETLKW).
int lx_lock_byte(int fd, off_t offset);
/// A read lease (fcntl F_SETLEASE): EAGAIN when anybody has the file open for writing. While it is held, an open
/// for writing waits in the kernel. Breaking it sends SIGURG, which is ignored by default, not the deadly SIGIO.
int lx_lease(int fd);
int lx_unlease(int fd);
int lx_gettid(void);
/// Whether system call `number` asks for a file's attributes: stat(2) and its kin, access(2).
int lx_call_asks_attributes(long number);
/// Whether system call `number` with `arguments` works on an open file, and follows no path.
int lx_call_is_by_descriptor(long number, const unsigned long arguments[6]);
/// The `f_type` that statfs(2) tells; -1 when it fails.
long lx_file_system_type(const char *path);
/// umount2(2), with MNT_DETACH if `lazy`.
int lx_umount(const char *path, int lazy);
/// Lowers the priority of the calling thread alone.
void lx_thread_background(void);
/// prctl(PR_SET_NAME) of the calling thread; 15 bytes at most are kept.
void lx_thread_name(const char *name);

/// The name in a directory entry; valid as long as the entry.
static inline const char *lx_entry_name(const struct dirent *e) { return e->d_name; }

static inline int lx_is_dir(mode_t m) { return S_ISDIR(m); }
static inline int lx_is_reg(mode_t m) { return S_ISREG(m); }
static inline int lx_is_lnk(mode_t m) { return S_ISLNK(m); }

/// A path of any length as a Unix socket's address, through /proc/self/fd; -1 if even that is too long.
int lx_unix_address(struct sockaddr_un *a, int dirfd, const char *name);
int lx_bind(int s, const struct sockaddr_un *a);
int lx_connect(int s, const struct sockaddr_un *a);
int lx_peer(int s, uid_t *uid, pid_t *pid);

/// argp_error(3) without its varargs.
void lx_argp_error(const struct argp_state *s, const char *text);
/// The help that argp makes of its table, on standard output.
void lx_argp_help(const struct argp *a, const char *name);
/// environ(7).
char **lx_environment(void);
/// pipe2(2).
int lx_pipe(int ends[2]);
/// posix_spawn_file_actions_addclosefrom_np(3).
int lx_spawn_close_from(posix_spawn_file_actions_t *actions, int first);
int lx_accept(int s);
/// The longest wait of one read or write, in seconds; 0: without end.
void lx_socket_timeout(int s, int seconds);
/// readlink(2).
ssize_t lx_readlink(const char *path, void *room, size_t size);
/// A stream socket of AF_UNIX.
int lx_unix_socket(void);

/// A stream socket of AF_INET or AF_INET6.
int lx_socket(int family);
/// Binds it to a numeric address; its port, which the system picks for 0; -1 when that fails.
int lx_bind_port(int s, int family, const char *address, uint16_t port);
/// How many columns of a terminal a character takes, by the locale; 1 where that does not say.
int lx_columns(uint32_t character);
