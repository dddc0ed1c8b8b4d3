#include "rtf/npy.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/array_bytes.h"
#include "core/atomic_file.h"
#include "core/npy_bytes.h"
#include "core/printable.h"
#include "rtf/error.h"

namespace rtf {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t max_dimensions = 64;  // NumPy's own limit; to_c_order takes time for each of them

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, "read_npy", fmt::format("{}: {}", path, why));
}

[[noreturn]] void refuse_type(const std::string& path, const std::string& what) {
  fail(path, fmt::format("has data type {}; expected little-endian '<f4' or '<f8'", what), ErrorCode::unsupported);
}

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::size_t>> shape;
};

// The header is a Python dictionary literal: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !header.descr) {
        header.descr = descr();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !header.shape) {
        header.shape = tuple();
      } else {
        malformed(fmt::format("unexpected key '{}'", printable(key)));
      }
      if (!accept(',') && peek() != '}') malformed("expected ',' or '}'");
    }
    peek();
    if (position_ != text_.size()) malformed("text after the closing brace");
    if (!header.descr || !header.fortran_order || !header.shape) {
      malformed("expected the keys descr, fortran_order and shape");
    }
    return {*header.descr, *header.fortran_order, *header.shape};
  }

 private:
  [[noreturn]] void malformed(const std::string& why) const { fail(path_, "malformed npy header: " + why); }

  char peek() {
    while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_]))) ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) malformed(fmt::format("expected '{}' at byte {}", c, position_));
  }

  std::string_view quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') malformed(fmt::format("expected a quoted text at byte {}", position_));
    const std::size_t begin = position_ + 1, end = text_.find(quote, begin);
    if (end == std::string_view::npos) malformed("a quoted text does not end");
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  std::string descr() {
    if (peek() == '[') refuse_type(path_, "with fields");
    return std::string(quoted());
  }

  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(position_).starts_with(word)) {
        position_ += word.size();
        return value;
      }
    }
    malformed("fortran_order is neither True nor False");
  }

  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> shape;
    expect('(');
    while (!accept(')')) {
      peek();
      std::size_t size = 0;
      const char *begin = text_.data() + position_, *end = text_.data() + text_.size();
      const auto [stop, error] = std::from_chars(begin, end, size);
      if (error == std::errc::result_out_of_range) malformed("a size in the shape is too large");
      if (error != std::errc()) malformed("the shape holds something other than sizes");
      position_ += static_cast<std::size_t>(stop - begin);
      accept('L');  // Python 2 wrote long integers so
      if (shape.size() == max_dimensions) malformed(fmt::format("more than {} dimensions", max_dimensions));
      shape.push_back(size);
      if (!accept(',') && peek() != ')') malformed("expected ',' or ')' in the shape");
    }
    return shape;
  }

  std::string_view text_;
  std::size_t position_ = 0;
  const std::string& path_;
};

// From the first index running fastest to the last one.
std::vector<double> to_c_order(const std::vector<double>& values, const std::vector<std::size_t>& shape) {
  std::vector<double> result(values.size());
  std::vector<std::size_t> index(shape.size(), 0);
  for (const double value : values) {
    std::size_t at = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
    result[at] = value;
    for (std::size_t d = 0; d < shape.size() && ++index[d] == shape[d]; ++d) index[d] = 0;
  }
  return result;
}

}  // namespace

std::string npy_header(const std::string& descr, const std::vector<std::size_t>& shape, const std::string& path,
                       std::size_t room) {
  if (shape.size() > max_dimensions) {
    throw Error(ErrorCode::argument, "write_npy",
                fmt::format("{}: {} dimensions, at most {} are possible", path, shape.size(), max_dimensions));
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  constexpr std::size_t prefix = 10, alignment = 64;  // magic, version and length; numpy maps the values at 64 bytes
  if (prefix + header.size() + 1 < room) header.append(room - prefix - header.size() - 1, ' ');
  header.append((alignment - (prefix + header.size() + 1) % alignment) % alignment, ' ').push_back('\n');
  std::string bytes{magic};
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return bytes + header;
}

std::size_t npy_header_size(std::string_view start, const std::string& path) {
  std::string_view rest = start;
  if (!rest.starts_with(magic)) fail(path, "not an npy file (it does not begin with \\x93NUMPY)");
  rest.remove_prefix(magic.size());
  if (rest.size() < 2) fail(path, "truncated: the file ends inside the npy header");
  const int version = static_cast<unsigned char>(rest[0]);
  if (version < 1 || version > 3) {
    fail(path, fmt::format("npy format version {}; expected 1, 2 or 3", version), ErrorCode::unsupported);
  }
  rest.remove_prefix(2);

  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (rest.size() < length_bytes) fail(path, "truncated: the file ends inside the npy header");
  std::size_t header_length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    header_length |= static_cast<std::size_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  return magic.size() + 2 + length_bytes + header_length;
}

NpyHeader parse_npy_header(std::string_view bytes, const std::string& path) {
  const std::size_t size = npy_header_size(bytes, path), prefix = bytes[magic.size()] == 1 ? 10 : 12;
  if (size > bytes.size()) {
    fail(path,
         fmt::format("truncated: the npy header claims {} bytes, {} are left", size - prefix, bytes.size() - prefix));
  }
  return HeaderParser(bytes.substr(prefix, size - prefix), path).parse();
}

Array parse_npy(std::string_view bytes, const std::string& path) {
  const NpyHeader header = parse_npy_header(bytes, path);
  if (header.descr != "<f4" && header.descr != "<f8") refuse_type(path, fmt::format("'{}'", printable(header.descr)));
  const std::string_view rest = bytes.substr(npy_header_size(bytes, path));
  Array array{header.shape, {}, header.descr == "<f4" ? DataType::f32 : DataType::f64};
  const auto count = element_count(array.shape);
  std::size_t expected = 0;
  if (!count || __builtin_mul_overflow(*count, size_of(array.type), &expected)) {
    fail(path, fmt::format("shape {} is too large", shape_text(array.shape)));
  }
  if (rest.size() != expected) {
    fail(path, fmt::format("{}: shape {} needs {} bytes of values, the file has {}",
                           rest.size() < expected ? "truncated" : "trailing bytes", shape_text(array.shape), expected,
                           rest.size()));
  }
  array.values = decode_values(rest, array.type);
  if (header.fortran_order) array.values = to_c_order(array.values, array.shape);
  return array;
}

Array read_npy(const std::string& path) { return parse_npy(read_file(path, "read_npy"), path); }

std::string npy_bytes(const Array& array, const std::string& path) {
  if (array.type != DataType::f32 && array.type != DataType::f64)
    throw Error(ErrorCode::argument, "write_npy", path + ": npy files hold float32 and float64 alone");
  std::string bytes = npy_header(array.type == DataType::f32 ? "<f4" : "<f8", array.shape, path);
  encode_values(array, path, "write_npy", bytes);
  return bytes;
}

std::string npy_bytes(const ComplexArray& array, const std::string& path) {
  check_values(array.shape, array.values.size(), path, "write_npy");
  return npy_header("<c16", array.shape, path)
      .append(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(std::complex<double>));
}

void write_npy(const std::string& path, const Array& array) {
  StagedFile(path, npy_bytes(array, path), "write_npy").commit();
}

void write_npy(const std::string& path, const ComplexArray& array) {
  StagedFile(path, npy_bytes(array, path), "write_npy").commit();
}

}  // namespace rtf
