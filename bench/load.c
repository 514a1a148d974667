// Load on sockets that are connected and authenticated already: load poll|many|line SECONDS FD...
// Standard input holds one request for each socket, all of one size. `poll` sends it again and again; `many` is PollMany,
// and confirms each time all rows that came; `line` is any request that a line answers. One request is under way on each
// socket. Ends after SECONDS, or when every socket was answered "nothing there"; prints replies with rows (`line`: all),
// rows, bytes, nanoseconds up to the last such reply and when that was (monotonic nanoseconds). What is under way at the
// end is waited for, so that the sockets can be used again.
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 32, REPLY = 9, MAX_REQUEST = 256, MAX_SOCKETS = 64, CONFIRMED = HEADER + 12, CHECKSUM = 20, EMPTY = 0xfc };

struct client {
  int fd;
  uint8_t request[MAX_REQUEST];
  uint8_t* reply;
  size_t capacity, have;
  int done;
};

static struct client clients[MAX_SOCKETS];
static size_t request_size;
static uint64_t replies, rows, bytes;
static enum { POLL, MANY, LINE } mode;

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char* what) {
  fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint32_t u32(const uint8_t* p) {
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
}

static void ask(struct client* c) {
  if (send(c->fd, c->request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) fail("send");
  c->have = 0;
}

static uint32_t byte_sum(const uint8_t* p, size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += p[i];
  return sum;
}

static void confirm(struct client* c, uint64_t through) {
  uint32_t sum = u32(c->request + CHECKSUM) - byte_sum(c->request + CONFIRMED, sizeof through);
  memcpy(c->request + CONFIRMED, &through, sizeof through);
  sum += byte_sum(c->request + CONFIRMED, sizeof through);
  memcpy(c->request + CHECKSUM, &sum, sizeof sum);
}

// One recv; true when the reply is whole.
static int receive(struct client* c) {
  const size_t want = mode == LINE || c->have < REPLY ? c->capacity : REPLY + u32(c->reply + 1);
  if (want > c->capacity) {
    c->capacity = want;
    if (!(c->reply = realloc(c->reply, want))) fail("realloc");
  }
  const ssize_t n = recv(c->fd, c->reply + c->have, c->capacity - c->have, 0);
  if (n <= 0) fail("recv");
  c->have += (size_t)n;
  if (mode == LINE) return c->reply[c->have - 1] == '\n';
  return c->have >= REPLY && c->have == REPLY + (size_t)u32(c->reply + 1);
}

static void take(struct client* c) {
  if (mode == LINE) {
    replies++;
    bytes += c->have;
    return;
  }
  if (c->reply[0] == EMPTY || (mode == MANY && c->reply[0] == 0 && u32(c->reply + REPLY) == 0)) {
    c->done = 1;
    return;
  }
  if (c->reply[0] != 0) {
    fprintf(stderr, "load: refused with 0x%02x: %.*s\n", c->reply[0], (int)(c->have - REPLY), c->reply + REPLY);
    exit(1);
  }
  replies++;
  bytes += c->have;
  if (mode == POLL) {
    rows++;
    return;
  }
  const uint32_t count = u32(c->reply + REPLY);
  uint64_t first;
  memcpy(&first, c->reply + REPLY + 4, sizeof first);
  rows += count;
  confirm(c, first + count - 1);  // this client asked for every row there is, so that their numbers have no holes
}

int main(int argc, char** argv) {
  const int n = argc - 3;
  if (n < 1 || n > MAX_SOCKETS) return 2;
  mode = strcmp(argv[1], "many") == 0 ? MANY : strcmp(argv[1], "line") == 0 ? LINE : POLL;
  const uint64_t patience = (uint64_t)(atof(argv[2]) * 1e9);
  static uint8_t requests[MAX_REQUEST * MAX_SOCKETS];
  const size_t all = fread(requests, 1, sizeof requests, stdin);
  request_size = all / (size_t)n;
  if (request_size < (mode == LINE ? 1 : HEADER) || request_size > MAX_REQUEST) return 2;
  const int poller = epoll_create1(0);
  for (int i = 0; i < n; i++) {
    struct client* c = &clients[i];
    c->fd = atoi(argv[3 + i]);
    memcpy(c->request, requests + (size_t)i * request_size, request_size);
    c->capacity = mode == MANY ? 8 << 20 : 4096;
    if (!(c->reply = malloc(c->capacity))) fail("malloc");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event)) fail("epoll_ctl");
  }
  const uint64_t begin = now();
  uint64_t last = begin;
  int open = n;
  for (int i = 0; i < n; i++) ask(&clients[i]);
  alarm((unsigned)atoi(argv[2]) + 30);  // a server that does not answer ends it
  while (open) {
    struct epoll_event events[MAX_SOCKETS];
    int ready = 1;
    if (n == 1) {
      events[0].data.ptr = &clients[0];  // one client blocks in recv, as a program would
    } else if ((ready = epoll_wait(poller, events, MAX_SOCKETS, 1000)) < 0) {
      fail("epoll_wait");
    }
    for (int i = 0; i < ready; i++) {
      struct client* c = events[i].data.ptr;
      if (!receive(c)) continue;
      take(c);
      if (!c->done) last = now();
      if (c->done || last - begin >= patience) {
        open--;
      } else {
        ask(c);
      }
    }
  }
  printf("%llu %llu %llu %llu %llu\n", (unsigned long long)replies, (unsigned long long)rows, (unsigned long long)bytes,
         (unsigned long long)(last - begin), (unsigned long long)last);
  return 0;
}
