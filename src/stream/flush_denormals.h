// Numbers too small for full precision count as zero while this lives: decaying states would otherwise slow a processor
// down a hundredfold.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include <cstdint>

namespace rtf::stream {

class FlushDenormals {
 public:
  FlushDenormals() : before_(read()) { write(before_ | bits); }
  ~FlushDenormals() { write(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  using Register = std::uint32_t;
  static constexpr Register bits = 0x8040;  // results to zero, operands as zero
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register bits = std::uint64_t{1} << 24;
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
  using Register = std::uint32_t;
  static constexpr Register bits = 0;
  static Register read() { return 0; }
  static void write(Register) {}
#endif

  const Register before_;
};

}  // namespace rtf::stream
