// Preloaded into a daemon, it makes every promise of durability a lie: a test that still passes then proves nothing.
#define _GNU_SOURCE
#include <sys/types.h>

int fsync(int fd) { return (void)fd, 0; }
int fdatasync(int fd) { return (void)fd, 0; }
int syncfs(int fd) { return (void)fd, 0; }
void sync(void) {}
int sync_file_range(int fd, off64_t offset, off64_t count, unsigned flags) {
  return (void)fd, (void)offset, (void)count, (void)flags, 0;
}
int msync(void *start, size_t length, int flags) { return (void)start, (void)length, (void)flags, 0; }
