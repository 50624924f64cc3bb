// Which checkpoint counts, and what is said of damaged ones.
#include "longshore/trainer/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "longshore/base/atomic_file.h"
#include "longshore/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/message_of.h"

namespace longshore::trainer {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;
using data::TemporaryFolder;

// A checkpoint as far as this file goes: any files, and their manifest.
fs::path make(const fs::path& folder, int64_t step, const std::string& name = "") {
  const fs::path path = folder / (name.empty() ? checkpoint_name(step) : name);
  fs::create_directories(path / "model");
  write_file(path / "model/config.json", "{}");
  write_file(path / "optimizer.safetensors", std::string(1000, static_cast<char>(step)));
  write_file(path / kManifestFile, manifest_text({.step = step, .files = files_of(path)}));
  return path;
}

void flip(const fs::path& file, size_t at) {
  std::string text = data::read_file(file);
  text.at(at) = static_cast<char>(text[at] ^ 4);
  std::ofstream(file, std::ios::binary) << text;
}

void say_nothing(const std::string& text) { ADD_FAILURE() << text; }

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

TEST(NewestCheckpoint, IsFoundByItsManifest) {
  TemporaryFolder folder;
  EXPECT_FALSE(newest_checkpoint(folder / "none", OnDamage::refuse, say_nothing));
  EXPECT_FALSE(newest_checkpoint(folder / "", OnDamage::refuse, say_nothing));
  make(folder / "", 9);
  make(folder / "", 12, "00000003");
  make(folder / "", 20, "00000020.partial-17");
  fs::create_directory(folder / "notes");
  EXPECT_EQ(newest_checkpoint(folder / "", OnDamage::refuse, say_nothing)->folder,
            folder / "00000003");
}

TEST(NewestCheckpoint, DamageIsNoticedInEveryFile) {
  for (const char* file : {"model/config.json", "optimizer.safetensors", kManifestFile}) {
    TemporaryFolder folder;
    const fs::path earlier = make(folder / "", 1), newest = make(folder / "", 2);
    const std::string whole = data::read_file(newest / file);
    auto expect_noticed = [&](const std::string& how) {
      const std::string message = message_of<DataError>(
          [&] { newest_checkpoint(folder / "", OnDamage::refuse, say_nothing); });
      EXPECT_TRUE(message.starts_with((newest / file).string() + ": ")) << how << ": " << message;
      EXPECT_THAT(message, HasSubstr("fall_back_to_earlier_checkpoint=true"));
      EXPECT_THAT(message, HasSubstr(earlier.string()));
    };
    for (size_t at : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
      flip(newest / file, at);
      expect_noticed("a bit at " + std::to_string(at));
      std::ofstream(newest / file, std::ios::binary) << whole;
    }
    fs::resize_file(newest / file, whole.size() - 1);
    expect_noticed("cut off");
    fs::remove(newest / file);
    expect_noticed("gone");
    std::ofstream(newest / file, std::ios::binary) << whole;
    EXPECT_EQ(newest_checkpoint(folder / "", OnDamage::refuse, say_nothing)->folder, newest);
  }
}

// By a manifest that is whole, but does not list what will be read.
TEST(NewestCheckpoint, EveryPartMustBeListed) {
  TemporaryFolder folder;
  make(folder / "", 1);
  const fs::path newest = make(folder / "", 2);
  const std::vector<SavedFile> all = files_of(newest);
  ASSERT_EQ(all.size(), 2u);
  for (const std::vector<SavedFile>& some :
       {std::vector<SavedFile>{}, std::vector<SavedFile>{all[0]}, std::vector<SavedFile>{all[1]}}) {
    write_file(newest / kManifestFile, manifest_text({.step = 2, .files = some}));
    for (auto open : {+[](const fs::path& folder) { open_checkpoint(folder); },
                      +[](const fs::path& folder) {
                        newest_checkpoint(folder.parent_path(), OnDamage::refuse, say_nothing);
                      }})
      EXPECT_TRUE(message_of<DataError>([&] {
                    open(newest);
                  }).starts_with((newest / kManifestFile).string() + ": files: found "));
  }
  const fs::path added = newest / "model" / "added.safetensors";
  write_file(added, "");
  write_file(newest / kManifestFile, manifest_text({.step = 2, .files = all}));
  EXPECT_THAT(message_of<DataError>([&] { open_checkpoint(newest); }),
              HasSubstr("added.safetensors"));
  fs::remove(added);
  fs::create_directory(newest / "adapter");
  write_file(newest / kManifestFile, manifest_text({.step = 2, .files = all}));
  EXPECT_THAT(message_of<DataError>([&] { open_checkpoint(newest); }),
              HasSubstr("nothing of adapter"));
}

TEST(NewestCheckpoint, FallsBackOnlyWhereThatIsAllowed) {
  TemporaryFolder folder;
  make(folder / "", 1);
  flip(make(folder / "", 2) / "optimizer.safetensors", 5);
  fs::remove(make(folder / "", 3) / kManifestFile);
  EXPECT_THROW(newest_checkpoint(folder / "", OnDamage::refuse, say_nothing), DataError);
  std::vector<std::string> said;
  auto found = newest_checkpoint(folder / "", OnDamage::fall_back,
                                 [&](const std::string& text) { said.push_back(text); });
  EXPECT_EQ(found->manifest.step, 1);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_THAT(said[1], HasSubstr("00000002/optimizer.safetensors: found the hash"));
  EXPECT_EQ(names(folder / ""),
            (std::vector<std::string>{"00000001", "00000002.damaged", "00000003.damaged"}));
  // Out of the way for good.
  EXPECT_EQ(newest_checkpoint(folder / "", OnDamage::refuse, say_nothing)->manifest.step, 1);
  // Also where the run went on to the same step, and that is damaged again.
  flip(make(folder / "", 2) / "optimizer.safetensors", 5);
  newest_checkpoint(folder / "", OnDamage::fall_back, [](const std::string&) {});
  EXPECT_TRUE(fs::exists(folder / "00000002.damaged-2"));
  flip(folder / "00000001/optimizer.safetensors", 5);
  EXPECT_THAT(message_of<DataError>(
                  [&] { newest_checkpoint(folder / "", OnDamage::fall_back, say_nothing); }),
              HasSubstr("no earlier checkpoint"));
}

TEST(OldCheckpoints, AreRemovedButTheNewest) {
  TemporaryFolder folder;
  for (int64_t step : {5, 1, 40, 7, 12}) make(folder / "", step);
  remove_old_checkpoints(folder / "", -1);
  EXPECT_EQ(names(folder / "").size(), 5u);
  fs::create_directory(folder / "20261126");  // somebody's, and none of a later step
  remove_old_checkpoints(folder / "", 2);
  EXPECT_EQ(names(folder / ""), (std::vector<std::string>{"00000012", "00000040", "20261126"}));
  remove_old_checkpoints(folder / "", 1, "elsewhere/00000012");
  EXPECT_EQ(names(folder / ""), (std::vector<std::string>{"00000012", "00000040", "20261126"}));
  remove_old_checkpoints(folder / "", 1);
  EXPECT_EQ(names(folder / ""), (std::vector<std::string>{"00000040", "20261126"}));
}

// Of a run's folder, with links into it; what is no checkpoint's part is not known.
TEST(TrainedWeights, AreVerifiedByTheirCheckpoint) {
  TemporaryFolder folder;
  const fs::path checkpoint = make(folder / "checkpoints", 1);
  fs::create_directory_symlink("checkpoints/" + checkpoint.filename().string() + "/model",
                               folder / "model");
  verify_trained(folder / "");
  flip(checkpoint / "optimizer.safetensors", 0);
  verify_trained(folder / "");
  flip(checkpoint / "model/config.json", 0);
  EXPECT_THAT(message_of<DataError>([&] { verify_trained(folder / ""); }),
              HasSubstr((checkpoint / "model/config.json").string() + ": "));
  fs::remove(folder / "model");
  fs::copy(checkpoint / "model", folder / "model");
  verify_trained(folder / "");
}

TEST(OpenCheckpoint, WantsTheCheckpointsOwnFolder) {
  TemporaryFolder folder;
  make(folder / "run/checkpoints", 3);
  const fs::path newest = make(folder / "run/checkpoints", 4);
  EXPECT_EQ(open_checkpoint(newest).manifest.step, 4);
  EXPECT_THAT(message_of<DataError>([&] { open_checkpoint(folder / "run"); }),
              HasSubstr("nearest: " + newest.string()));
  EXPECT_THAT(message_of<DataError>([&] { open_checkpoint(folder / "none"); }),
              HasSubstr("manifest.json"));
  flip(newest / "model/config.json", 0);
  EXPECT_THROW(open_checkpoint(newest), DataError);
}

}  // namespace
}  // namespace longshore::trainer
