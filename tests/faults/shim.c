/* A stand-in for parts of the kernel, loaded by LD_PRELOAD: disks that are slow, full or read-only, files that end where
 * they should not, clocks that jump.
 *
 * What it does now stands in the file that RELAY_SHIM names, shared by all processes: struct orders below. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, ALLOCATE = 4, NAME = 8 };

/* Calls of these kinds about files whose path has this part are counted, and one of them fails. */
struct watch {
  char part[64];  /* "": there is no such watch */
  int32_t calls;
  int32_t error;  /* of the call with number `at`; 0: it writes half of what it is given; -1: its process is killed */
  int64_t at;     /* 0: none fails */
  int64_t seen;
};

struct orders {
  int64_t sync_us;    /* fsync and fdatasync take so much longer */
  int64_t shift_ns;   /* the clock of the day is so far ahead */
  int64_t bytes;      /* fstat says of files below `folder` that they have so many: pages behind their end are SIGBUS */
  int32_t error;      /* what would make a file longer fails with it; EROFS: what would change one, too */
  int32_t reserved;
  char folder[256];   /* of the files that `error` is about */
  struct watch watches[16];
};

static volatile struct orders* given;

__attribute__((constructor)) static void attach(void) {
  static int (*real)(const char*, int, ...);
  const char* path = getenv("RELAY_SHIM");
  if (!path) return;
  real = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
  int fd = real(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void* p = mmap(NULL, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) abort();
  given = p;
}

#define REAL(type, name, ...)                                        \
  static type (*real)(__VA_ARGS__);                                  \
  if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int below(const char* path) {
  size_t n = strlen((const char*)given->folder);
  return n && strncmp(path, (const char*)given->folder, n) == 0;
}

static int refused_path(const char* path) { return given && given->error && below(path) ? given->error : 0; }

/* The path of an open file, "" for what has none. */
static const char* named(int fd, char path[512]) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, path, 511);
  path[n < 0 ? 0 : n] = 0;
  return path;
}

static int named_below(int fd) {
  char path[512];
  return below(named(fd, path));
}

enum { GOES_ON = 0, HALF = -1 };

/* What becomes of a call: GOES_ON, HALF, or the errno that it fails with. */
static int watched(int call, const char* path) {
  int outcome = GOES_ON;
  for (int i = 0; i < 16 && given->watches[i].part[0]; ++i) {
    volatile struct watch* watch = &given->watches[i];
    if (!(watch->calls & call) || !strstr(path, (const char*)watch->part)) continue;
    if (__atomic_add_fetch(&watch->seen, 1, __ATOMIC_SEQ_CST) != watch->at) continue;
    if (watch->error < 0) kill(getpid(), SIGKILL);
    outcome = watch->error ? watch->error : HALF;
  }
  return outcome;
}

static int watched_fd(int call, int fd) {
  char path[512];
  return given && given->watches[0].part[0] ? watched(call, named(fd, path)) : GOES_ON;
}

static int fails(int error) {
  if (error > 0) errno = error;
  return error > 0;
}

static int refused_fd(int fd) { return given && given->error && named_below(fd) ? given->error : 0; }

/* A write that overwrites what is there needs no room. */
static int refused_write(int fd, int64_t end) {
  int error = refused_fd(fd);
  struct stat st;
  if (error == 0 || error == EROFS) return error;
  return fstat(fd, &st) == 0 && end <= st.st_size ? 0 : error;
}

static void slow(void) {
  if (given && given->sync_us) usleep((useconds_t)given->sync_us);
}

int fsync(int fd) {
  REAL(int, "fsync", int);
  slow();
  return fails(watched_fd(SYNC, fd)) ? -1 : real(fd);
}

int fdatasync(int fd) {
  REAL(int, "fdatasync", int);
  slow();
  return fails(watched_fd(SYNC, fd)) ? -1 : real(fd);
}

int fstat(int fd, struct stat* st) {
  REAL(int, "fstat", int, struct stat*);
  int failed = real(fd, st);
  if (!failed && given && given->bytes && S_ISREG(st->st_mode) && named_below(fd)) st->st_size = given->bytes;
  return failed;
}

int posix_fallocate(int fd, off_t offset, off_t size) {
  REAL(int, "posix_fallocate", int, off_t, off_t);
  int error = refused_fd(fd);
  if (!error) error = watched_fd(ALLOCATE, fd);
  return error > 0 ? error : real(fd, offset, size);
}

int posix_fallocate64(int fd, off64_t offset, off64_t size) { return posix_fallocate(fd, offset, size); }

ssize_t write(int fd, const void* data, size_t size) {
  REAL(ssize_t, "write", int, const void*, size_t);
  if (given && given->error) {
    struct stat st;
    off_t at = lseek(fd, 0, SEEK_CUR);
    int flags = fcntl(fd, F_GETFL);
    if ((flags & O_APPEND) && fstat(fd, &st) == 0) at = st.st_size;
    int error = at < 0 ? 0 : refused_write(fd, at + (int64_t)size);
    if (error) {
      errno = error;
      return -1;
    }
  }
  int outcome = watched_fd(WRITE, fd);
  if (fails(outcome)) return -1;
  return real(fd, data, outcome == HALF ? (size + 1) / 2 : size);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  REAL(ssize_t, "pwrite", int, const void*, size_t, off_t);
  int error = refused_write(fd, offset + (int64_t)size);
  if (error) {
    errno = error;
    return -1;
  }
  int outcome = watched_fd(WRITE, fd);
  if (fails(outcome)) return -1;
  return real(fd, data, outcome == HALF ? (size + 1) / 2 : size, offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) { return pwrite(fd, data, size, offset); }

static int refused_open(const char* path, int flags) {
  int error = refused_path(path);
  if (error == EROFS) return flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC) ? EROFS : 0;
  return error && (flags & O_CREAT) && access(path, F_OK) != 0 ? error : 0;
}

#define OPEN(name)                                          \
  int name(const char* path, int flags, ...) {              \
    REAL(int, #name, const char*, int, ...);                \
    va_list more;                                           \
    va_start(more, flags);                                  \
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0; \
    va_end(more);                                           \
    int error = refused_open(path, flags);                  \
    if (error) {                                            \
      errno = error;                                        \
      return -1;                                            \
    }                                                       \
    return real(path, flags, mode);                         \
  }
OPEN(open)
OPEN(open64)

int rename(const char* from, const char* to) {
  REAL(int, "rename", const char*, const char*);
  if (refused_path(to) == EROFS) {
    errno = EROFS;
    return -1;
  }
  if (given && fails(watched(NAME, to))) return -1;
  return real(from, to);
}

int link(const char* from, const char* to) {
  REAL(int, "link", const char*, const char*);
  if (given && fails(watched(NAME, to))) return -1;
  return real(from, to);
}

int unlink(const char* path) {
  REAL(int, "unlink", const char*);
  if (refused_path(path) == EROFS) {
    errno = EROFS;
    return -1;
  }
  return real(path);
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  REAL(int, "clock_gettime", clockid_t, struct timespec*);
  int failed = real(clock, now);
  if (!failed && given && given->shift_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + given->shift_ns;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
  }
  return failed;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}
