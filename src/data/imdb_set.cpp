#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "core/atomic_file.h"
#include "data/tar.h"
#include "data/text_set.h"
#include "rtf/error.h"

namespace rtf::data {
namespace {

namespace fs = std::filesystem;
constexpr const char* operation = "read_imdb";
constexpr std::size_t longest = 4096;
// Of a review: a character has at most four, and what will be cut is not kept.
constexpr std::size_t most_bytes = 4 * longest;

[[noreturn]] void fail(const std::string& path, const std::string& why, ErrorCode code = ErrorCode::format) {
  throw Error(code, operation, fmt::format("{}: {}", path, why));
}

const char* split_name(std::size_t split) { return split == 0 ? "train" : "test"; }

// The reviews of one split and class in the order of their names, whichever way they are stored.
using Reviews = std::map<std::string, std::string>;  // by file name
struct Archive {
  Reviews reviews[2][2];  // train, test; negative, positive
};

// ".../train/pos/0_9.txt": which list it belongs to; nullptr for what is none of them.
Reviews* list_of(Archive& archive, const fs::path& name) {
  const std::string kind = name.parent_path().filename().string();
  const std::string split = name.parent_path().parent_path().filename().string();
  if (name.extension() != ".txt" || (kind != "pos" && kind != "neg") || (split != "train" && split != "test")) {
    return nullptr;
  }
  return &archive.reviews[split == "test"][kind == "pos"];
}

Archive read_archive(const std::string& path) {
  Archive archive;
  read_tar(
      path, most_bytes, [&](const std::string& name) { return list_of(archive, name) != nullptr; },
      [&](const std::string& name, std::string&& bytes) {
        (*list_of(archive, name))[fs::path(name).filename().string()] = std::move(bytes);
      });
  return archive;
}

void give(std::size_t label, std::string text, const std::function<void(TextSample&&)>& sample) {
  sample({.label = label, .documents = {std::move(text), ""}});
}

TextSet from_archive(TextSet set, const std::string& path) {
  set.files = {path};
  // Kept between the two passes of who prepares it.
  set.read = [path, kept = std::make_shared<std::unique_ptr<Archive>>()](std::size_t split, const auto& sample) {
    if (split == 1) return;
    if (!*kept) *kept = std::make_unique<Archive>(read_archive(path));
    for (const std::size_t label : {1, 0}) {
      const Reviews& reviews = (*kept)->reviews[split == 2][label];
      if (reviews.empty()) fail(path, fmt::format("no {}/{}/*.txt in it", split_name(split), label ? "pos" : "neg"));
      for (const auto& [name, text] : reviews) give(label, text, sample);
    }
  };
  return set;
}

std::vector<std::string> texts_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  if (files.empty()) fail(folder.string(), "it holds no *.txt", ErrorCode::io);
  std::sort(files.begin(), files.end());
  return files;
}

TextSet from_folder(TextSet set, const fs::path& root) {
  struct Listed {
    std::size_t split, label;
    std::vector<std::string> files;
  };
  std::vector<Listed> lists;
  for (const std::size_t split : {0, 2}) {
    for (const std::size_t label : {1, 0}) {
      lists.push_back({split, label, texts_in(root / split_name(split) / (label ? "pos" : "neg"))});
      set.files.insert(set.files.end(), lists.back().files.begin(), lists.back().files.end());
    }
  }
  set.read = [lists](std::size_t split, const auto& sample) {
    for (const Listed& list : lists) {
      if (list.split != split) continue;
      for (const std::string& file : list.files) give(list.label, read_file(file, operation), sample);
    }
  };
  return set;
}

}  // namespace

TextSet imdb_set(const std::string& path) {
  // 15 of the text as it is cut, which makes 131 characters of the public set.
  TextSet set{.name = "text", .longest = longest, .occurrences = 15, .files = {}, .read = {}};
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return from_archive(std::move(set), path);
  for (const fs::path& root : {fs::path(path), fs::path(path) / "aclImdb"}) {
    if (fs::is_directory(root / "train", ignored)) return from_folder(std::move(set), root);
  }
  std::vector<std::string> archives;
  for (const auto& entry : fs::directory_iterator(path, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("aclImdb") && (name.ends_with(".tar.gz") || name.ends_with(".tar"))) {
      archives.push_back(entry.path().string());
    }
  }
  if (archives.size() == 1) return from_archive(std::move(set), archives[0]);
  fail(path, "it is neither the folder aclImdb, nor one that holds it or its .tar.gz, nor that archive", ErrorCode::io);
}

}  // namespace rtf::data
