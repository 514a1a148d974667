// For LD_PRELOAD: a disk on which fsync and fdatasync take 30 ms longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

enum { LONGER_US = 30000 };

static int slowly(const char* name, int fd) {
  int (*original)(int);
  *(void**)&original = dlsym(RTLD_NEXT, name);
  usleep(LONGER_US);
  return original(fd);
}

int fsync(int fd) { return slowly("fsync", fd); }
int fdatasync(int fd) { return slowly("fdatasync", fd); }
