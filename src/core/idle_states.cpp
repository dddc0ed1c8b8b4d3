#include "core/idle_states.h"

#include <algorithm>
#include <vector>

namespace rtf {
namespace {

// Grows `states` by those that `leads(from, to)` goes to, until there are no more.
template <class F>
std::vector<char> closure(std::vector<char> states, const F& leads) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i]) open.push_back(i);
  while (!open.empty()) {
    const std::size_t from = open.back();
    open.pop_back();
    for (std::size_t to = 0; to < states.size(); ++to)
      if (!states[to] && leads(from, to)) {
        states[to] = true;
        open.push_back(to);
      }
  }
  return states;
}

}  // namespace

StateSpace without_idle_states(const StateSpace& s) {
  const std::size_t n = s.order;
  std::vector<char> reached(n), seen(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < s.inputs; ++j) reached[i] |= s.B[i * s.inputs + j] != 0;
    for (std::size_t j = 0; j < s.outputs; ++j) seen[i] |= s.C[j * n + i] != 0;
  }
  reached = closure(std::move(reached), [&](std::size_t from, std::size_t to) { return s.A[to * n + from] != 0; });
  seen = closure(std::move(seen), [&](std::size_t from, std::size_t to) { return s.A[from * n + to] != 0; });
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < n; ++i)
    if (reached[i] && seen[i]) kept.push_back(i);
  StateSpace result;
  result.order = kept.size();
  result.inputs = s.inputs;
  result.outputs = s.outputs;
  result.D = s.D;
  for (const std::size_t i : kept) {
    for (const std::size_t j : kept) result.A.push_back(s.A[i * n + j]);
    for (std::size_t j = 0; j < s.inputs; ++j) result.B.push_back(s.B[i * s.inputs + j]);
  }
  for (std::size_t j = 0; j < s.outputs; ++j)
    for (const std::size_t i : kept) result.C.push_back(s.C[j * n + i]);
  return result;
}

}  // namespace rtf
