#include "sample_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "core/array_bytes.h"
#include "core/npy_bytes.h"
#include "core/printable.h"
#include "incoming_bytes.h"
#include "rtf/error.h"

namespace rtf::cli {
namespace {

[[noreturn]] void fail(ErrorCode code, const std::string& message) { throw Error(code, "stream", message); }

// --- Text -----------------------------------------------------------------------------------------------------------

// A sample a line, numbers between blanks or commas. Empty lines and those that begin with # are passed over.
class TextSource : public SampleSource {
 public:
  TextSource(const std::string& path, std::size_t inputs)
      : bytes_(path), inputs_(inputs), longest_(std::max(std::size_t{1} << 20, 64 * inputs)), sample_(inputs) {}

  std::size_t read(std::span<double> samples) override {
    std::size_t count = 0;
    while (count < samples.size() / inputs_) {
      std::string& held = bytes_.held();
      const std::size_t end = held.find('\n', begin_);
      if (end == std::string::npos) {
        if (count > 0) break;
        held.erase(0, std::exchange(begin_, 0));
        if (held.size() > longest_)
          fail(ErrorCode::format, fmt::format("{}: line {} has more than {} bytes", bytes_.name(), line_, longest_));
        if (bytes_.hold_more()) continue;
        if (held.empty()) break;
        held.push_back('\n');  // the last line may lack it
        continue;
      }
      // What came before a bad line is answered first.
      try {
        if (parse(std::string_view(held).substr(begin_, end - begin_)))
          std::copy(sample_.begin(), sample_.end(), samples.data() + count++ * inputs_);
      } catch (const Error&) {
        if (count == 0) throw;
        break;
      }
      begin_ = end + 1;
      ++line_;
    }
    return count;
  }

 private:
  // Into sample_; false for a line without one.
  bool parse(std::string_view line) {
    constexpr std::string_view blanks = " \t\r", between = " \t\r,";
    const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size())); };
    std::size_t count = 0;
    for (skip_blanks(); !line.empty() && !(count == 0 && line[0] == '#'); skip_blanks()) {
      const std::string_view word = line.substr(0, line.find_first_of(between));
      line.remove_prefix(word.size());
      const double value = number(word);
      if (count < inputs_) sample_[count] = value;
      ++count;
      skip_blanks();
      if (!line.empty() && line[0] == ',') line.remove_prefix(1);  // one after each number
    }
    if (count != 0 && count != inputs_)
      fail(ErrorCode::argument, fmt::format("{}: line {} has {} number{}, the model takes {} a sample", bytes_.name(),
                                            line_, count, count == 1 ? "" : "s", inputs_));
    return count != 0;
  }

  double number(std::string_view word) const {
    const bool plus = word.size() > 1 && word[0] == '+' && word[1] != '-';
    const std::string_view digits = word.substr(plus ? 1 : 0);
    double value = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = stop == digits.data() + digits.size();
    // Of a number too small for a double from_chars says as much as of one too large; strtod has its nearest value.
    const bool out_of_range = error == std::errc::result_out_of_range;
    if (out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
    if (!whole || !(error == std::errc() || (out_of_range && std::abs(value) < 1)))
      fail(ErrorCode::format,
           fmt::format("{}: line {} holds '{}', expected a number", bytes_.name(), line_, printable(word)));
    return value;
  }

  Bytes bytes_;
  std::size_t inputs_, longest_, begin_ = 0;
  std::uint64_t line_ = 1;
  std::vector<double> sample_;
};

// --- Numbers of a fixed width ---------------------------------------------------------------------------------------

using Decode = double (*)(const char*);
template <class T>
double decode_one(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

struct NumberType {
  std::size_t width;
  Decode decode;
};

class NumberSource : public SampleSource {
 public:
  NumberSource(const std::string& path, std::size_t inputs)
      : bytes_(path), inputs_(inputs), type_{4, decode_one<float>} {}

  std::size_t read(std::span<double> samples) override {
    std::string& held = bytes_.held();
    const std::size_t width = inputs_ * type_.width;
    std::size_t most = samples.size() / inputs_;
    if (left_) most = static_cast<std::size_t>(std::min<std::uint64_t>(most, *left_));
    if (left_ && most == 0) {
      if (!held.empty() || bytes_.hold_more())
        fail(ErrorCode::format, fmt::format("{}: trailing bytes after its values", bytes_.name()));
      return 0;
    }
    while (held.size() < width)
      if (!bytes_.hold_more()) {
        if (held.empty() && !left_) return 0;
        fail(ErrorCode::format, fmt::format("{}: truncated: it ends {} sample {}, of {} bytes", bytes_.name(),
                                            held.empty() ? "before" : "inside", position_, width));
      }
    const std::size_t count = std::min(most, held.size() / width);
    for (std::size_t i = 0; i < count * inputs_; ++i) samples[i] = type_.decode(held.data() + i * type_.width);
    held.erase(0, count * width);
    position_ += count;
    if (left_) *left_ -= count;
    return count;
  }

 protected:
  Bytes bytes_;
  std::size_t inputs_;
  NumberType type_;
  std::optional<std::uint64_t> left_;  // samples, where a head says it
  std::uint64_t position_ = 0;
};

class NpySource : public NumberSource {
 public:
  NpySource(const std::string& path, std::size_t inputs) : NumberSource(path, inputs) {
    const std::string& name = bytes_.name();
    std::string& held = bytes_.held();
    while (held.size() < npy_start && bytes_.hold_more()) continue;
    const std::size_t head = npy_header_size(std::string_view(held).substr(0, npy_start), name);
    if (head > std::size_t{1} << 20)
      fail(ErrorCode::format, fmt::format("{}: its npy header claims {} bytes, expected at most 1 MB", name, head));
    while (held.size() < head && bytes_.hold_more()) continue;
    const NpyHeader header = parse_npy_header(held, name);
    held.erase(0, head);
    type_ = type_of(header.descr);
    const auto& shape = header.shape;
    const bool one = shape.size() == 1 && inputs == 1;
    if (!one && !(shape.size() == 2 && shape[1] == inputs))
      fail(ErrorCode::argument, fmt::format("{} has shape {}, expected {}(length, {}): the model takes {} number{} a "
                                            "sample",
                                            name, shape_text(shape), inputs == 1 ? "(length) or " : "", inputs, inputs,
                                            inputs == 1 ? "" : "s"));
    if (header.fortran_order && inputs > 1)
      fail(ErrorCode::unsupported, fmt::format("{} is in Fortran order, one column after the other: save it with "
                                               "numpy.ascontiguousarray",
                                               name));
    left_ = length_ = shape[0];
    const auto count = element_count(shape);
    std::size_t expected = 0;
    if (!count || __builtin_mul_overflow(*count, type_.width, &expected))
      fail(ErrorCode::format, fmt::format("{}: shape {} is too large", name, shape_text(shape)));
    // What a file lacks is known before the first answer.
    if (bytes_.size() && *bytes_.size() != head + expected)
      fail(ErrorCode::format, fmt::format("{}: {}: shape {} needs {} bytes of values, the file has {}", name,
                                          *bytes_.size() < head + expected ? "truncated" : "trailing bytes",
                                          shape_text(shape), expected, *bytes_.size() - head));
  }

  std::optional<std::uint64_t> length() const override { return length_; }

 private:
  NumberType type_of(const std::string& descr) const {
    static const std::map<std::string, NumberType> types = {
        {"<f4", {4, decode_one<float>}},        {"<f8", {8, decode_one<double>}},
        {"|u1", {1, decode_one<std::uint8_t>}}, {"<i2", {2, decode_one<std::int16_t>}},
        {"<i4", {4, decode_one<std::int32_t>}}, {"<i8", {8, decode_one<std::int64_t>}},
    };
    const auto found = types.find(descr);
    if (found == types.end())
      fail(ErrorCode::unsupported, fmt::format("{} has data type '{}'; expected '<f4', '<f8', '|u1', '<i2', '<i4' or "
                                               "'<i8'",
                                               bytes_.name(), printable(descr)));
    return found->second;
  }

  std::uint64_t length_ = 0;
};

// --- Sound ----------------------------------------------------------------------------------------------------------

class WavSource : public SampleSource {
 public:
  WavSource(const std::string& path, std::size_t inputs)
      : reader_(path == standard_stream ? WavReader::standard_input() : WavReader(path, /*streams=*/true)) {
    if (reader_.format().channels != inputs)
      fail(ErrorCode::argument, fmt::format("{} has {} channel{}, the model takes {} number{} a sample", shown(path),
                                            reader_.format().channels, reader_.format().channels == 1 ? "" : "s",
                                            inputs, inputs == 1 ? "" : "s"));
  }

  std::size_t read(std::span<double> samples) override { return reader_.read(samples); }
  std::optional<std::uint64_t> length() const override {
    if (reader_.length() == WavReader::open_length) return {};
    return reader_.length();
  }
  const WavFormat* sound() const override { return &reader_.format(); }

 private:
  WavReader reader_;
};

}  // namespace

std::string shown(const std::string& path) { return path == standard_stream ? "standard input" : path; }

const char* name(SampleForm form) {
  constexpr const char* names[] = {"text", "raw", "npy", "wav"};
  return names[static_cast<int>(form)];
}

SampleForm sample_form(const std::string& path, const std::string& given, const char* option) {
  static const std::map<std::string, SampleForm> forms = {
      {"text", SampleForm::text}, {"txt", SampleForm::text}, {"csv", SampleForm::text}, {"raw", SampleForm::raw},
      {"f32", SampleForm::raw},   {"npy", SampleForm::npy},  {"wav", SampleForm::wav},
  };
  if (!given.empty()) return forms.at(given);
  if (path == standard_stream) return SampleForm::text;
  const std::size_t dot = path.rfind('.');
  std::string suffix = dot == std::string::npos ? "" : path.substr(dot + 1);
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = forms.find(suffix);
  if (found == forms.end())
    fail(ErrorCode::argument,
         fmt::format("the name {} does not tell its format; {} text, raw, npy or wav does", path, option));
  return found->second;
}

std::unique_ptr<SampleSource> open_source(const std::string& path, SampleForm form, std::size_t inputs) {
  switch (form) {
    case SampleForm::text:
      return std::make_unique<TextSource>(path, inputs);
    case SampleForm::raw:
      return std::make_unique<NumberSource>(path, inputs);
    case SampleForm::npy:
      return std::make_unique<NpySource>(path, inputs);
    case SampleForm::wav:
      break;
  }
  return std::make_unique<WavSource>(path, inputs);
}

}  // namespace rtf::cli
