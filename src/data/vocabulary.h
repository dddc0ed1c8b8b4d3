// The tokens of a set of texts, and their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rtf::data {

// What every vocabulary begins with.
inline constexpr std::uint16_t pad_token = 0, unknown_token = 1, end_token = 2;

// How often each token occurs, as UTF-8.
using TokenCounts = std::map<std::string, std::uint64_t>;

// "<pad>", "<unk>", "<eos>", then the tokens that occur at least `occurrences` times: the most frequent first, equally
// frequent ones by their code points.
std::vector<std::string> make_vocabulary(const TokenCounts& counts, std::uint64_t occurrences);

// As text for people: a token a row, its number the row's less one, quoted as in JSON.
std::string vocabulary_text(const std::vector<std::string>& vocabulary);
// Throws unless the file holds just that; the message names the file and the first row that differs.
void check_vocabulary_file(const std::string& path, const std::vector<std::string>& vocabulary);

}  // namespace rtf::data
