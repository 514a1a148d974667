// Exceptions of the native code, and how a wrapper reads them to raise them in another language.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace relay {

// A failure of the journal. The text is for people; `code` is a code of relay.errors (journal_lost, disk_full,
// journal_corrupt ...).
struct JournalError : std::runtime_error {
  std::string code;
  JournalError(std::string c, const std::string& what) : std::runtime_error(what), code(std::move(c)) {}
};

// The stream cannot be read further. `code` is a code of relay.errors, `where` the file and position; an empty `hint`
// means the hint of the code.
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
  StreamError(std::string c, std::string op, uint64_t journal_position, const std::string& cause, std::string h)
      : StreamError(std::move(c), std::move(op), "journal position " + std::to_string(journal_position), cause,
                    std::move(h)) {}
};

struct Failure {
  std::string code;
  std::string operation;
  std::string where;
  std::string cause;
  std::string hint;
};

// Describes the exception in flight; call it in a catch block.
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
