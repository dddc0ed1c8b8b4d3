#include "data/vocabulary.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "data/tsv.h"

namespace rtf::data {

std::vector<std::string> make_vocabulary(const TokenCounts& counts, std::uint64_t occurrences) {
  std::vector<std::pair<std::string, std::uint64_t>> kept;
  for (const auto& entry : counts) {
    if (entry.second >= occurrences) kept.push_back(entry);
  }
  // The map is sorted by bytes, which is the order of the code points.
  std::stable_sort(kept.begin(), kept.end(), [](const auto& x, const auto& y) { return x.second > y.second; });
  std::vector<std::string> vocabulary = {"<pad>", "<unk>", "<eos>"};
  for (auto& [token, count] : kept) vocabulary.push_back(token);
  return vocabulary;
}

std::string vocabulary_text(const std::vector<std::string>& vocabulary) {
  std::string text;
  for (const std::string& token : vocabulary) text += nlohmann::json(token).dump() + "\n";
  return text;
}

void check_vocabulary_file(const std::string& path, const std::vector<std::string>& vocabulary) {
  constexpr const char* operation = "read_vocabulary";
  const std::string text = read_file(path, operation), expected = vocabulary_text(vocabulary);
  if (text == expected) return;
  const auto same = std::mismatch(text.begin(), text.end(), expected.begin(), expected.end()).first;
  fail_row(operation, path, 1 + static_cast<std::size_t>(std::count(text.begin(), same, '\n')),
           "not the vocabulary of the prepared data");
}

}  // namespace rtf::data
