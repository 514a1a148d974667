// The least that a relay does: peer BINLOG CLIENT, two connected sockets. Sends the dump command that comes on standard
// input, checks every packet's frame and every event's checksum, keeps rows until their transaction is committed, and
// hands them to one classic client, in Poll or PollMany, until the client has confirmed them. It decodes nothing, stores
// nothing and knows one client: what a relay with more duties costs beside it is what those duties cost.
#include "classic.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum {
  PACKET = 4,      // u24 length, sequence
  EVENT = 19,      // header of an event: u32 time, type, u32 server, u32 size, u32 position, u16 flags
  SUM = 4,         // checksum behind an event
  INPUT = 4 << 20, // bytes of the source's stream at hand
  ROWS = 1 << 16,  // rows that may wait
  BYTES = 64 << 20,
  POLL = 4,
  POLL_MANY = 6,
  MOST = 1000,     // rows of a reply
};
enum { XID_EVENT = 16, WRITE_ROWS = 30, DELETE_ROWS = 32 };

struct row {
  size_t at;
  uint32_t size;
};

static uint8_t input[INPUT], request[HEADER + MAX_REQUEST], reply[REPLY + BYTES / 8];
static uint8_t kept[BYTES];
static struct row rows[ROWS];
static size_t kept_end;
// Rows are numbered: [first, handed) are with the client, [handed, committed) wait, [committed, end) are not committed.
static uint64_t first, handed, committed, end;
static int client_waits;

static void keep(const uint8_t* data, uint32_t size) {
  if (end - first == ROWS || size > BYTES) {
    fprintf(stderr, "peer: too many rows wait\n");
    exit(1);
  }
  if (kept_end + size > BYTES) kept_end = 0;  // the oldest rows were confirmed long ago
  memcpy(kept + kept_end, data, size);
  rows[end++ % ROWS] = (struct row){kept_end, size};
  kept_end += size;
}

static void take_event(const uint8_t* event, uint32_t size) {
  if (size < EVENT + SUM || u32(event + 9) != size) {
    fprintf(stderr, "peer: an event of %u bytes says that it has %u\n", size, u32(event + 9));
    exit(1);
  }
  const uint8_t type = event[4];
  if (crc32(0, event, size - SUM) != u32(event + size - SUM) && u32(event) != 0) {  // an artificial event may have none
    fprintf(stderr, "peer: wrong checksum of an event of type %u\n", type);
    exit(1);
  }
  if (type >= WRITE_ROWS && type <= DELETE_ROWS) keep(event + EVENT, size - EVENT - SUM);
  if (type == XID_EVENT) committed = end;
}

// Takes whole packets; returns the bytes that are left of the last one.
static size_t take_packets(size_t have) {
  static uint8_t sequence;
  size_t at = 0;
  while (have - at > PACKET) {
    const uint32_t size = u32(input + at) & 0xffffff;
    if (have - at < PACKET + (size_t)size) break;
    const uint8_t* packet = input + at + PACKET;
    if (input[at + 3] != ++sequence || size == 0xffffff || packet[0] != 0) {
      fprintf(stderr, "peer: the source ended the dump, or sent a packet that does not follow\n");
      exit(1);
    }
    take_event(packet + 1, size - 1);
    at += PACKET + size;
  }
  memmove(input, input + at, have - at);
  return have - at;
}

static void put_all(int fd, const uint8_t* data, size_t size) {
  while (size) {
    const ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n <= 0) fail("send");
    data += n;
    size -= (size_t)n;
  }
}

static void answer(int fd, uint8_t result, size_t size) {
  const uint32_t length = (uint32_t)size, sum = result + length + byte_sum(reply + REPLY, size);
  reply[0] = result;
  memcpy(reply + 1, &length, sizeof length);
  memcpy(reply + 5, &sum, sizeof sum);
  put_all(fd, reply, REPLY + size);
}

// Answers a poll with the next row, or PollMany with all that fit. False: there are none.
static int hand_out(int fd, int many) {
  const uint64_t begin = handed;
  size_t size = many ? 12 : 0;  // u32 count, u64 number of the first row
  while (handed < committed && handed - begin < (many ? MOST : 1)) {
    const struct row* row = &rows[handed % ROWS];
    if (REPLY + size + row->size > sizeof reply) break;
    memcpy(reply + REPLY + size, kept + row->at, row->size);
    size += row->size;
    handed++;
  }
  if (handed == begin) return 0;
  if (many) {
    const uint32_t count = (uint32_t)(handed - begin);
    const uint64_t number = begin + 1;
    memcpy(reply + REPLY, &count, sizeof count);
    memcpy(reply + REPLY + 4, &number, sizeof number);
  }
  answer(fd, 0, size);
  return 1;
}

static void take_request(int fd, size_t* have) {
  const ssize_t n = recv(fd, request + *have, sizeof request - *have, 0);
  if (n == 0) exit(0);
  if (n < 0) fail("recv from the client");
  *have += (size_t)n;
  if (*have < HEADER || *have < HEADER + u32(request + 4)) return;
  const uint32_t size = HEADER + u32(request + 4), sum = u32(request + CHECKSUM);
  memset(request + CHECKSUM, 0, sizeof sum);
  const uint16_t command = (uint16_t)(request[0] | request[1] << 8);
  uint32_t expected = command + u32(request + 4) + u32(request + 8) + u32(request + 12) + u32(request + 16);
  expected += (uint32_t)(request[2] | request[3] << 8) + u32(request + 24) + u32(request + 28);
  if (*have != size || sum != expected + byte_sum(request + HEADER, size - HEADER)) {
    fprintf(stderr, "peer: a request with a wrong checksum\n");
    exit(1);
  }
  *have = 0;
  if (command == POLL) {
    first = handed;
    if (!hand_out(fd, 0)) answer(fd, EMPTY, 0);
    return;
  }
  uint64_t through;
  memcpy(&through, request + CONFIRMED, sizeof through);
  if (through > first) first = through;
  client_waits = !hand_out(fd, command == POLL_MANY);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  struct pollfd fds[2] = {{.fd = atoi(argv[1]), .events = POLLIN}, {.fd = atoi(argv[2]), .events = POLLIN}};
  const ssize_t size = read(0, input, sizeof input);
  if (size <= 0) fail("read the dump command");
  put_all(fds[0].fd, input, (size_t)size);
  size_t have = 0, asked = 0;
  for (;;) {
    if (poll(fds, 2, -1) < 0) fail("poll");
    if (fds[0].revents) {
      const ssize_t n = recv(fds[0].fd, input + have, sizeof input - have, 0);
      if (n <= 0) fail("recv from the source");
      have = take_packets(have + (size_t)n);
      if (client_waits) client_waits = !hand_out(fds[1].fd, 1);
    }
    if (fds[1].revents) take_request(fds[1].fd, &asked);
  }
}
