#include "data/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "rtf/error.h"

namespace rtf::data {
namespace {

constexpr std::size_t most_at_once = std::size_t{1} << 30;  // zlib counts in int

}  // namespace

GzipFile::GzipFile(std::string path, const char* operation)
    : path_(std::move(path)), operation_(operation), file_(nullptr, gzclose) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path_, ignored)) file_.reset(gzopen(path_.c_str(), "rb"));
  if (!file_) throw Error(ErrorCode::io, operation_, path_ + ": cannot be opened");
  gzbuffer(file_.get(), 1u << 18);
}

std::size_t GzipFile::read(std::uint8_t* bytes, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const std::size_t more = std::min(size - done, most_at_once);
    const int got = gzread(file_.get(), bytes + done, static_cast<unsigned>(more));
    if (got < 0) refuse();
    done += static_cast<std::size_t>(got);
    if (static_cast<std::size_t>(got) == more) continue;
    int code = Z_OK;
    gzerror(file_.get(), &code);
    if (code != Z_OK) refuse();  // a gzipped stream that ends early
    break;
  }
  return done;
}

void GzipFile::refuse() {
  int code = Z_OK;
  const std::string line = gzerror(file_.get(), &code);
  const std::size_t colon = line.rfind(": ");  // zlib puts the name first
  throw Error(ErrorCode::format, operation_,
              path_ + (code == Z_BUF_ERROR ? ": truncated: the gzipped stream ends early"
                                           : ": damaged: " + line.substr(colon == std::string::npos ? 0 : colon + 2)));
}

}  // namespace rtf::data
