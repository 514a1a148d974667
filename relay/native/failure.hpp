// Failures as the core throws them, and as a wrapper raises them in another language.
#pragma once

#include "journal.hpp"

namespace relay {

// The stream cannot be read on. `code` is one of relay.errors', `where` file and position, `hint` empty for the code's
// own.
struct StreamError : std::runtime_error {
  std::string code;
  std::string operation;
  std::string where;
  std::string hint;
  StreamError(std::string c, std::string op, std::string w, const std::string& cause, std::string h = {})
      : std::runtime_error(cause),
        code(std::move(c)),
        operation(std::move(op)),
        where(std::move(w)),
        hint(std::move(h)) {}
};

struct Failure {
  std::string code;
  std::string operation;
  std::string where;
  std::string cause;
  std::string hint;
};

// What the exception in flight says; to be called in a catch block.
inline Failure current_failure() {
  try {
    throw;
  } catch (const JournalError& error) {
    std::string what = error.what();
    size_t colon = what.find(": ");
    return {error.code, what.substr(0, colon), "", colon == what.npos ? "" : what.substr(colon + 2), ""};
  } catch (const StreamError& error) {
    return {error.code, error.operation, error.where, error.what(), error.hint};
  } catch (const std::exception& error) {
    return {"", "", "", error.what(), ""};
  } catch (...) {
    return {"", "", "", "an exception without a text", ""};
  }
}

}  // namespace relay
