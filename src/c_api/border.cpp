#include "c_api/border.h"

#include <cstdio>
#include <new>
#include <stdexcept>

#include "rtf/version.h"

namespace rtf::c_api {
namespace {

// Of fixed size, so that keeping a message cannot fail itself. A path may have 4,096 characters.
thread_local char last_error[6000] = "";

// One line, whatever a path has in it.
void keep(const char* message) {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  for (char* c = last_error; *c != '\0'; ++c)
    if (static_cast<unsigned char>(*c) < ' ' || *c == '\x7f') *c = '?';
}

void keep(const char* operation, const char* message) {
  char line[256];
  std::snprintf(line, sizeof line, "[rtf::%s] %s", operation, message);
  keep(line);
}

rtf_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::argument:
      return RTF_ERROR_ARGUMENT;
    case ErrorCode::format:
      return RTF_ERROR_FORMAT;
    case ErrorCode::io:
      return RTF_ERROR_IO;
    case ErrorCode::unstable:
      return RTF_ERROR_UNSTABLE;
    case ErrorCode::unsupported:
      return RTF_ERROR_UNSUPPORTED;
  }
  return RTF_ERROR_INTERNAL;
}

}  // namespace

rtf_status caught(const char* operation) noexcept {
  try {
    throw;
  } catch (const Error& error) {
    keep(error.what());
    return status_of(error.code());
  } catch (const std::bad_alloc&) {
    keep(operation, "there is not enough memory");
    return RTF_ERROR_MEMORY;
  } catch (const std::length_error&) {  // more than a vector can ever hold
    keep(operation, "there is not enough memory");
    return RTF_ERROR_MEMORY;
  } catch (const std::exception& error) {
    keep(operation, error.what());
  } catch (...) {
    keep(operation, "an unknown failure");
  }
  return RTF_ERROR_INTERNAL;
}

}  // namespace rtf::c_api

extern "C" {

const char* rtf_version(void) { return rtf::version; }

const char* rtf_last_error(void) { return rtf::c_api::last_error; }

const char* rtf_status_name(rtf_status status) {
  switch (rtf::c_api::number_of(status)) {
    case RTF_OK:
      return "ok";
    case RTF_ERROR_ARGUMENT:
      return "argument";
    case RTF_ERROR_FORMAT:
      return "format";
    case RTF_ERROR_IO:
      return "io";
    case RTF_ERROR_UNSTABLE:
      return "unstable";
    case RTF_ERROR_UNSUPPORTED:
      return "unsupported";
    case RTF_ERROR_MEMORY:
      return "memory";
    case RTF_ERROR_INTERNAL:
      return "internal";
  }
  return "unknown";
}
}
