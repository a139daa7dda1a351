// What Swift cannot import from libfuse by itself: macros, bit-field initialisers and variadics.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <linux/fuse.h>
#include <stddef.h>
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

static inline struct fuse_args docsfs_args(int argc, char **argv) {
  struct fuse_args a = FUSE_ARGS_INIT(argc, argv);
  return a;
}
