// Another model under running streams.
#include <algorithm>
#include <utility>

#include "core/arguments.h"
#include "stream/streams.h"

namespace rtf::stream {
namespace {

constexpr const char* operation = "stream::swap";

// States of one mean the same numbers in the other.
template <class T>
void check_same_states(const typename Model<T>::Impl& from, const typename Model<T>::Impl& to) {
  Architecture a = from.architecture, b = to.architecture;
  a.length = b.length = 0;
  if (!(a == b)) fail(ErrorCode::argument, operation, "the models have different architectures");
  for (std::size_t i = 0; i < from.blocks.size(); ++i) {
    const Layer &one = from.blocks[i].layer, &other = to.blocks[i].layer;
    if (one.lanes.index() != other.lanes.index() || one.ring != other.ring || one.terms != other.terms ||
        one.states_a_term != other.states_a_term)
      fail(ErrorCode::argument, operation,
           "layer {} of the models has different realizations or orders; export both with the same", i);
  }
  if (from.lanes.lanes != to.lanes.lanes)
    fail(ErrorCode::argument, operation, "the models were loaded for different instruction sets");
}

}  // namespace

template <class T>
Model<T> Streams<T>::swap(Model<T> model, std::size_t fade) {
  Impl& s = *impl_;
  check_same_states<T>(*s.numbers, *model.impl);
  if (s.fading > 0)
    fail(ErrorCode::argument, operation, "{} stream{} from the last swap; let them run on first", s.fading,
         s.fading == 1 ? " still fades" : "s still fade");
  const std::size_t next = 1 - s.current;
  std::copy_n(s.states, s.sides[next].states.size(), s.sides[next].states.data());
  std::swap(s.sides[next].model, model);
  s.current = next;
  s.select(next);
  s.fade = fade;
  for (auto& slot : s.slots) {
    if (!slot.joined || slot.samples == 0 || fade == 0) continue;
    slot.fade = fade;
    ++s.fading;
  }
  return model;
}

template Model<float> Streams<float>::swap(Model<float>, std::size_t);
template Model<double> Streams<double>::swap(Model<double>, std::size_t);

}  // namespace rtf::stream
