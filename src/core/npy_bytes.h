// An npy file as bytes, for callers that stage several files before they commit one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rtf/npy.h"

namespace rtf {

// What stands before the values.
struct NpyHeader {
  std::string descr;  // of the values, as NumPy names their type
  bool fortran_order = false;
  std::vector<std::size_t> shape;
};

// How many bytes the header has, from the first npy_start of the file, or fewer where it ends sooner. `path` is for
// error messages only, here and below.
inline constexpr std::size_t npy_start = 12;
std::size_t npy_header_size(std::string_view start, const std::string& path);
NpyHeader parse_npy_header(std::string_view bytes, const std::string& path);
// Of at least `room` bytes: a header that is to be written over by one of the same size.
std::string npy_header(const std::string& descr, const std::vector<std::size_t>& shape, const std::string& path,
                       std::size_t room = 0);

Array parse_npy(std::string_view bytes, const std::string& path);
std::string npy_bytes(const Array& array, const std::string& path);
std::string npy_bytes(const ComplexArray& array, const std::string& path);

}  // namespace rtf
