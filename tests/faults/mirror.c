// Keeps what a loss of power would leave: preloaded into a relay, it notes what has been flushed, and which names have.
//
// RELAY_DATA is the folder that is watched, RELAY_MIRROR, beside it, gets for each of its files
//   PATH      the content that is on disk: as it was when fsync or fdatasync was called last
//   PATH~     what the name stood for before a rename or a removal that the folder's fsync has not yet made last
//   PATH!     its content when a flush of it failed: what has not changed since is never written, as Linux has it
// A file that is not in there at all may be missing or empty after the loss. RELAY_MIRROR.fail, if it is there, has a part
// of the path of the file whose next flush fails with EIO, once.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static const char* data_folder(void) { return getenv("RELAY_DATA"); }

// RELAY_MIRROR's path for one in RELAY_DATA; 0 for any other.
static int mirrored(const char* path, char* out) {
  const char *data = data_folder(), *mirror = getenv("RELAY_MIRROR");
  char whole[PATH_MAX];
  if (!data || !mirror) return 0;
  if (path[0] != '/') {
    if (!getcwd(whole, sizeof whole)) return 0;
    size_t n = strlen(whole);
    if (snprintf(whole + n, sizeof whole - n, "/%s", path) >= (int)(sizeof whole - n)) return 0;
    path = whole;
  }
  size_t n = strlen(data);
  if (strncmp(path, data, n) || (path[n] != '/' && path[n])) return 0;
  return snprintf(out, PATH_MAX, "%s%s", mirror, path + n) < PATH_MAX - 32;
}

static int of_descriptor(int fd, char* path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return 1;
}

static void make_folders(const char* path) {
  char part[PATH_MAX];
  for (const char* slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    mkdir(part, 0700);
  }
}

static void copy(const char* path, const char* to) {
  char made[PATH_MAX + 32], buffer[1 << 16];
  snprintf(made, sizeof made, "%s~%d", to, getpid());
  int from = open(path, O_RDONLY | O_CLOEXEC);  // the descriptor that is flushed may be for writing only
  if (from < 0) return;  // it was removed just now
  int out = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) abort();
  ssize_t n;
  off_t at = 0;
  char lost[PATH_MAX + 32], unwritten[sizeof buffer], old[sizeof buffer];
  snprintf(lost, sizeof lost, "%s!", to);
  int failed = open(lost, O_RDWR | O_CLOEXEC), before = failed < 0 ? -1 : open(to, O_RDONLY | O_CLOEXEC);
  while ((n = pread(from, buffer, sizeof buffer, at)) > 0) {
    if (failed >= 0) {
      memset(old, 0, sizeof old);
      ssize_t known = pread(failed, unwritten, (size_t)n, at);
      if (before >= 0 && pread(before, old, (size_t)n, at) < 0) abort();
      for (ssize_t page = 0; page < known; page += PAGE) {
        size_t size = (size_t)(known - page < PAGE ? known - page : PAGE);
        if (memcmp(buffer + page, unwritten + page, size) == 0) {
          memcpy(buffer + page, old + page, size);
          continue;
        }
        for (size_t i = 0; i < size; ++i) unwritten[page + (ssize_t)i] = (char)~buffer[page + (ssize_t)i];
      }
      if (known > 0 && pwrite(failed, unwritten, (size_t)known, at) != known) abort();
    }
    if (write(out, buffer, (size_t)n) != n) break;
    at += n;
  }
  if (failed >= 0) close(failed);
  if (before >= 0) close(before);
  close(from);
  close(out);
  static int (*next)(const char*, const char*);
  if (!next) next = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  next(made, to);
}

static int removed(const char* path) {
  static int (*next)(const char*);
  if (!next) next = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  return next(path) == 0;
}

// A folder was flushed: what was renamed or removed in it is so for good, and what is in it has its name.
static void settle(const char* folder, const char* mirror) {
  char path[2 * PATH_MAX];
  DIR* dir = opendir(mirror);
  while (dir) {
    struct dirent* entry = readdir(dir);
    if (!entry) break;
    size_t n = strlen(entry->d_name);
    if (n && entry->d_name[n - 1] == '~') unlinkat(dirfd(dir), entry->d_name, 0);
  }
  if (dir) closedir(dir);
  dir = opendir(folder);
  while (dir) {
    struct dirent* entry = readdir(dir);
    if (!entry) break;
    if (entry->d_type != DT_REG) continue;
    snprintf(path, sizeof path, "%s/%s", mirror, entry->d_name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
  }
  if (dir) closedir(dir);
}

// Whether the flush of this file is the one that is to fail.
static int fails(const char* path) {
  char order[PATH_MAX], part[PATH_MAX] = "";
  const char* mirror = getenv("RELAY_MIRROR");
  snprintf(order, sizeof order, "%s.fail", mirror);
  int fd = open(order, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, part, sizeof part - 1);
  close(fd);
  return n > 0 && strstr(path, part) && removed(order);
}

// 0, or -1 with errno if the flush is to fail.
static int note(int fd) {
  char path[PATH_MAX], to[PATH_MAX];
  struct stat st;
  int error = errno;
  if (data_folder() && of_descriptor(fd, path) && mirrored(path, to) && !fstat(fd, &st)) {
    make_folders(to);
    if (fails(path)) {
      if (S_ISREG(st.st_mode)) {
        char lost[PATH_MAX + 2];
        snprintf(lost, sizeof lost, "%s!", to);
        copy(path, lost);
      }
      errno = EIO;
      return -1;
    }
    if (S_ISDIR(st.st_mode)) {
      mkdir(to, 0700);
      settle(path, to);
    } else if (st.st_nlink) {
      copy(path, to);
    }
  }
  errno = error;
  return 0;
}

// What is called before the flush is on disk after it; a folder's names are, once it has returned.
int fsync(int fd) {
  static int (*next)(int);
  if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return note(fd) ? -1 : next(fd);
}

int fdatasync(int fd) {
  static int (*next)(int);
  if (!next) next = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return note(fd) ? -1 : next(fd);
}

// Pages that are cut off are gone, whatever became of them: what is written there afterwards is new.
static int cut(const char* name, int fd, off_t length) {
  int (*next)(int, off_t) = (int (*)(int, off_t))dlsym(RTLD_NEXT, name);
  char path[PATH_MAX], to[PATH_MAX], lost[PATH_MAX + 2];
  struct stat st;
  int result = next(fd, length), error = errno;
  if (!result && data_folder() && of_descriptor(fd, path) && mirrored(path, to)) {
    snprintf(lost, sizeof lost, "%s!", to);
    off_t whole = length / PAGE * PAGE;
    if (!stat(lost, &st) && st.st_size > whole && truncate(lost, whole)) abort();
  }
  errno = error;
  return result;
}

int ftruncate(int fd, off_t length) { return cut("ftruncate", fd, length); }

int ftruncate64(int fd, off64_t length) { return cut("ftruncate64", fd, length); }

int rename(const char* from, const char* to) {
  static int (*next)(const char*, const char*);
  if (!next) next = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  char a[PATH_MAX], b[PATH_MAX], old[PATH_MAX + 2];
  int result = next(from, to);
  int error = errno;
  if (!result && mirrored(from, a) && mirrored(to, b)) {
    snprintf(old, sizeof old, "%s~", b);
    next(b, old);
    next(a, b);
    snprintf(old, sizeof old, "%s!", b);
    removed(old);  // of another file
  }
  errno = error;
  return result;
}

int unlink(const char* path) {
  static int (*next)(const char*);
  if (!next) next = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
  char a[PATH_MAX], old[PATH_MAX + 2];
  int result = next(path);
  int error = errno;
  if (!result && mirrored(path, a)) {
    static int (*move)(const char*, const char*);
    if (!move) move = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
    snprintf(old, sizeof old, "%s~", a);
    move(a, old);
  }
  errno = error;
  return result;
}

int link(const char* from, const char* to) {
  static int (*next)(const char*, const char*);
  if (!next) next = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "link");
  char a[PATH_MAX], b[PATH_MAX];
  int result = next(from, to);
  int error = errno;
  if (!result && mirrored(from, a) && mirrored(to, b)) next(a, b);
  errno = error;
  return result;
}
