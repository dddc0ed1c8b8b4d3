// NumPy's .npy files: little-endian float32 and float64, C order; complex128 is written, not read.
#pragma once

#include <complex>
#include <cstddef>
#include <string>
#include <vector>

namespace rtf {

// The narrow ones, bfloat16 and whole numbers of a byte, are for safetensors; npy has f32 and f64.
enum class DataType { f32, f64, bf16, int8 };

// Values are held as double, which keeps those of every type exactly.
struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;
  DataType type = DataType::f64;  // as it was, or will be, in the file
};

struct ComplexArray {
  std::vector<std::size_t> shape;
  std::vector<std::complex<double>> values;
};

Array read_npy(const std::string& path);

// Written to a temporary file beside `path`, flushed and renamed: the file appears whole or not at all.
void write_npy(const std::string& path, const Array& array);
void write_npy(const std::string& path, const ComplexArray& array);

}  // namespace rtf
