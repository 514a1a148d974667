// What the benchmark's programs know of the classic protocol, of time and of failing.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEADER = 32, REPLY = 9, MAX_REQUEST = 256, CONFIRMED = HEADER + 12, CHECKSUM = 20, EMPTY = 0xfc };

static inline uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void fail(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
  exit(1);
}

static inline uint32_t u32(const uint8_t* p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static inline uint32_t byte_sum(const uint8_t* p, size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += p[i];
  return sum;
}

// A PollMany request confirms all rows of the reply before it. The client asked for every row there is, so that their
// numbers have no holes.
static inline void confirm(uint8_t* request, const uint8_t* reply) {
  uint64_t first;
  memcpy(&first, reply + REPLY + 4, sizeof first);
  const uint64_t through = first + u32(reply + REPLY) - 1;
  uint32_t sum = u32(request + CHECKSUM) - byte_sum(request + CONFIRMED, sizeof through);
  memcpy(request + CONFIRMED, &through, sizeof through);
  sum += byte_sum(request + CONFIRMED, sizeof through);
  memcpy(request + CHECKSUM, &sum, sizeof sum);
}

// Ends the program unless the reply carries something or says that there is nothing.
static inline void require_answer(const uint8_t* reply, size_t size) {
  if (reply[0] == 0 || reply[0] == EMPTY) return;
  fprintf(stderr, "refused with 0x%02x: %.*s\n", reply[0], (int)(size - REPLY), (const char*)reply + REPLY);
  exit(1);
}
