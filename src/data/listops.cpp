#include "data/listops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/arguments.h"
#include "data/draws.h"

namespace rtf::data {
namespace {

constexpr int deepest = 10;  // the root is at depth 1
constexpr double operator_share = 0.25;
constexpr std::uint32_t fewest_arguments = 2, most_arguments = 10;

unsigned apply(char operation, std::array<unsigned, most_arguments>& values, std::size_t count) {
  const auto begin = values.begin(), end = begin + static_cast<std::ptrdiff_t>(count);
  if (operation == ListOps::min) return *std::min_element(begin, end);
  if (operation == ListOps::max) return *std::max_element(begin, end);
  if (operation == ListOps::sm) {
    unsigned sum = 0;
    for (auto value = begin; value != end; ++value) sum += *value;
    return sum % 10;
  }
  std::sort(begin, end);
  return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

// Appends an expression and returns its value. One that has grown too long is not drawn to its end.
unsigned draw(Draws& draws, int depth, std::string& tokens) {
  if (tokens.size() >= listops_longest) return 0;
  if (depth >= deepest || draws.uniform() > operator_share) {
    const unsigned digit = draws.below(10);
    tokens += static_cast<char>(digit);
    return digit;
  }
  const std::size_t count = fewest_arguments + draws.below(most_arguments - fewest_arguments + 1);
  const char operation = static_cast<char>(ListOps::min + draws.below(4));
  tokens += operation;
  std::array<unsigned, most_arguments> values{};
  for (std::size_t i = 0; i < count; ++i) values[i] = draw(draws, depth + 1, tokens);
  tokens += ListOps::end;
  return apply(operation, values, count);
}

// Writes the expression at `at` and moves on behind it.
void write(const std::string& tokens, std::size_t& at, std::string& text) {
  static constexpr const char* names[] = {"[MIN", "[MAX", "[MED", "[SM"};
  const char token = tokens[at++];
  if (token < 10) {
    text += static_cast<char>('0' + token);
    return;
  }
  // How many pairs of parentheses to open is known when the arguments are.
  std::string list = names[token - ListOps::min];
  std::size_t pairs = 0;
  for (bool end = false; !end; ++pairs) {
    list += ' ';
    end = tokens[at] == ListOps::end;
    end ? void(list += ']') : write(tokens, at, list);
    list += " )";
  }
  ++at;
  for (; pairs > 0; --pairs) text += "( ";
  text += list;
}

}  // namespace

std::optional<ListOps> draw_listops(std::uint64_t seed, std::uint32_t index) {
  Draws draws(seed, index, Generator::listops);
  ListOps expression;
  expression.value = draw(draws, 1, expression.tokens);
  const std::size_t length = expression.tokens.size();
  if (length <= listops_shortest || length >= listops_longest) return std::nullopt;
  return expression;
}

std::string listops_source(const ListOps& expression) {
  std::string text;
  std::size_t at = 0;
  write(expression.tokens, at, text);
  return text;
}

void generate_listops(std::uint64_t seed, std::size_t count, Executor& executor,
                      const std::function<void(std::size_t, const std::string&, unsigned)>& row) {
  constexpr std::size_t tasks = 256, indices_a_task = 64;
  std::unordered_set<std::string> seen;
  for (std::size_t first = 0, rows = 0; rows < count; first += tasks * indices_a_task) {
    if (first + tasks * indices_a_task > std::numeric_limits<std::uint32_t>::max())
      fail(ErrorCode::argument, "listops", "a seed has no {} distinct expressions; it gave {}", count, rows);
    struct Found {
      ListOps expression;
      std::string source;
    };
    std::vector<std::vector<Found>> found(tasks);
    parallel_for(executor, tasks, [&](std::size_t task, std::size_t) {
      for (std::size_t i = 0; i < indices_a_task; ++i)
        if (auto one = draw_listops(seed, static_cast<std::uint32_t>(first + task * indices_a_task + i))) {
          std::string source = listops_source(*one);
          found[task].push_back({std::move(*one), std::move(source)});
        }
    });
    for (auto& of_task : found)
      for (Found& one : of_task)
        if (rows < count && seen.insert(std::move(one.expression.tokens)).second)
          row(rows++, one.source, one.expression.value);
  }
}

}  // namespace rtf::data
