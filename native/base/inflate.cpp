// Inflating with one zlib stream per thread.
#include "base/inflate.hpp"

#include <zlib.h>

#include <climits>
#include <new>

namespace relay {

namespace {

// The stream of a thread. Its window and tables, about 40 KB, are kept for the next value.
class Inflater {
 public:
  Inflater() {
    if (inflateInit(&stream_) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  bool exactly(Bytes packed, Deflated form, uint8_t* to, size_t size) {
    constexpr int kWindowBits = 15;  // the largest window of zlib; negative: no header, no checksum
    if (inflateReset2(&stream_, form == Deflated::raw ? -kWindowBits : kWindowBits) != Z_OK) return false;
    stream_.next_in = const_cast<uint8_t*>(packed.data);  // zlib does not write here
    stream_.avail_in = static_cast<uInt>(packed.size);
    stream_.next_out = to;
    stream_.avail_out = static_cast<uInt>(size);
    return inflate(&stream_, Z_FINISH) == Z_STREAM_END && stream_.avail_out == 0;
  }

 private:
  z_stream stream_ = {};
};

}  // namespace

bool inflate_exactly(Bytes packed, Deflated form, uint8_t* to, size_t size) {
  if (packed.size > UINT_MAX || size > UINT_MAX) return false;
  thread_local Inflater inflater;
  return inflater.exactly(packed, form, to, size);
}

bool inflate_exactly(Bytes packed, Deflated form, size_t size, std::string* out) {
  if (!may_inflate_to(packed, size)) return false;
  out->resize(size + 1);  // zlib needs an output buffer even for no bytes
  bool done = inflate_exactly(packed, form, reinterpret_cast<uint8_t*>(&(*out)[0]), size);
  out->resize(done ? size : 0);
  return done;
}

}  // namespace relay
