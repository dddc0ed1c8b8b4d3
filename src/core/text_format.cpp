// fmt, compiled here once: as headers alone it costs every source that formats a line 4 s. Weak symbols, as inline
// functions have, so that a program with an fmt of its own may link the library.
#include <fmt/format.h>

#undef FMT_FUNC
#define FMT_FUNC __attribute__((weak))
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template thousands_sep_result<char> thousands_sep_impl(locale_ref);
template char decimal_point_impl(locale_ref);
}  // namespace detail
FMT_END_NAMESPACE
