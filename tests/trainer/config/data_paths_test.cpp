#include "longshore/trainer/config/data_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"

namespace longshore::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class DataPaths : public testing::Test {
 protected:
  // Paths in the folder, from it on.
  std::vector<std::string> found(const std::string& entry, const std::string& split) const {
    std::vector<std::string> names;
    for (const std::filesystem::path& path : data_paths(folder_ / entry, split))
      names.push_back(path.lexically_relative(folder_ / "").string());
    return names;
  }
  void write(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      std::filesystem::create_directories((folder_ / name).parent_path());
      folder_.write(name, "");
    }
  }

  data::TemporaryFolder folder_;
};

TEST_F(DataPaths, FilesStandForThemselves) {
  write({"a.jsonl", "a*.txt"});
  EXPECT_THAT(found("a.jsonl", "validation"), ElementsAre("a.jsonl"));
  EXPECT_THAT(found("none.jsonl", "train"), ElementsAre("none.jsonl"));
  EXPECT_THAT(found("a*.txt", "train"), ElementsAre("a*.txt"));
}

TEST_F(DataPaths, PatternsAreTheShells) {
  write({"b.jsonl", "a.jsonl", "a.txt", "c/d.jsonl", "e.jsonl/f"});
  EXPECT_THAT(found("*.jsonl", "train"), ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_THAT(found("[ab].*", "test"), ElementsAre("a.jsonl", "a.txt", "b.jsonl"));
  EXPECT_THAT(found("?/d.jsonl", "train"), ElementsAre("c/d.jsonl"));
  EXPECT_THAT(found("*.csv", "train"), IsEmpty());
}

// As the Hub has them.
TEST_F(DataPaths, FoldersHaveSplitsByTheirNames) {
  write({"data/train-00001-of-00002.jsonl", "data/train-00000-of-00002.jsonl.gz",
         "data/validation-00000-of-00001.json", "data/latest.jsonl", "README.md", "data/.train.csv",
         ".git/train.csv", "test/x.csv", "test/contest.tsv"});
  EXPECT_THAT(found("", "train"),
              ElementsAre("data/train-00000-of-00002.jsonl.gz", "data/train-00001-of-00002.jsonl"));
  for (const char* same : {"validation", "dev", "val"})
    EXPECT_THAT(found("", same), ElementsAre("data/validation-00000-of-00001.json"));
  EXPECT_THAT(found("", "test"), ElementsAre("test/contest.tsv", "test/x.csv"));
  EXPECT_THAT(found("", "latest"), ElementsAre("data/latest.jsonl"));
  EXPECT_THAT(found("", "train_sft"), IsEmpty());
}

TEST_F(DataPaths, FoldersMayBeSavedByDatasets) {
  write({"dataset_dict.json", "train/data-00000-of-00002.arrow", "train/data-00001-of-00002.arrow",
         "train/dataset_info.json", "train/state.json", "train/cache-1f.arrow",
         "test/data-00000-of-00001.arrow", "test/dataset_info.json", "test/state.json"});
  EXPECT_THAT(found("", "train"),
              ElementsAre("train/data-00000-of-00002.arrow", "train/data-00001-of-00002.arrow"));
  EXPECT_THAT(found("", "test"), ElementsAre("test/data-00000-of-00001.arrow"));
  EXPECT_THAT(found("test", "train"), ElementsAre("test/data-00000-of-00001.arrow"));
  // Elsewhere the names are anybody's.
  write({"other/state.json", "other/cache-1.arrow", "other/train-00000-of-00001.parquet"});
  EXPECT_THAT(found("other", "state"), ElementsAre("other/state.json"));
  EXPECT_THAT(found("other", "cache"), ElementsAre("other/cache-1.arrow"));
  EXPECT_THAT(found("other", "train"), ElementsAre("other/train-00000-of-00001.parquet"));
}

TEST_F(DataPaths, WithoutSplitsAllIsToTrainOn) {
  write({"a.txt", "b/c.tokens", "b/d.pdf"});
  EXPECT_THAT(found("", "train"), ElementsAre("a.txt", "b/c.tokens"));
  EXPECT_THAT(found("", "validation"), IsEmpty());
}

}  // namespace
}  // namespace longshore::trainer
