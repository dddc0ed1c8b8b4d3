// The one exception type of the library.
#pragma once

#include <stdexcept>
#include <string>

namespace rtf {

enum class ErrorCode {
  argument,     // a wrong shape, size or value handed to a function
  format,       // a file that is not what it should be
  io,           // the system refused to read or write
  unstable,     // a recurrence whose rounding would drown the answer
  unsupported,  // a valid request that this build or method cannot serve
};

// The message begins with the operation: "[rtf::convolve] ...".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& operation, const std::string& message)
      : std::runtime_error("[rtf::" + operation + "] " + message), code_(code) {}

  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace rtf
