// Complex numbers over any arithmetic type; std::complex is defined for the built-in ones alone.
#pragma once

namespace rtf {

template <class T>
struct Complex {
  T re{}, im{};

  Complex() = default;
  Complex(T real) : re(real) {}
  Complex(T real, T imaginary) : re(real), im(imaginary) {}
};

template <class T>
Complex<T> operator+(const Complex<T>& x, const Complex<T>& y) {
  return {x.re + y.re, x.im + y.im};
}
template <class T>
Complex<T> operator-(const Complex<T>& x, const Complex<T>& y) {
  return {x.re - y.re, x.im - y.im};
}
template <class T>
Complex<T> operator*(const Complex<T>& x, const Complex<T>& y) {
  return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
template <class T>
Complex<T> conj(const Complex<T>& x) {
  return {x.re, -x.im};
}
template <class T>
T norm(const Complex<T>& x) {  // |x|^2, as std::norm
  return x.re * x.re + x.im * x.im;
}
template <class T>
Complex<T> reciprocal(const Complex<T>& x) {
  const T inverse = reciprocal(norm(x));
  return {x.re * inverse, -x.im * inverse};
}

}  // namespace rtf
