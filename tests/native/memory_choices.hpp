// Which way an execution goes where it may go several.
#pragma once

#include <cstddef>

namespace model {

class Choices {
 public:
  virtual ~Choices() = default;
  // Below n.
  virtual size_t any(size_t n) = 0;
  // Before the access of that number. 0: the running thread goes on; up to `others`: another one does.
  virtual size_t thread(size_t access, size_t others) = 0;
  // 0: the last value is read; up to `older`: one so much older.
  virtual size_t message(size_t older) = 0;
  // Before an access of a mortal thread.
  virtual bool death() = 0;
};

extern Choices* choices;

}  // namespace model
