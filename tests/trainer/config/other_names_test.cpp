#include "trainer/config/other_names.h"

#include "tests/trainer/config/config_fixture.h"
#include "trainer/config/keys.h"

namespace longshore::trainer {
namespace {

class OtherNamesTest : public ConfigTest {};

TEST_F(OtherNamesTest, LeadToTheKeyHere) {
  for (const auto& [name, key] :
       std::map<std::string, std::string>{{"mu_dtype", "moment_dtype"},
                                          {"training.seq_len", "max_target_length"},
                                          {"activation_checkpoint.mode", "remat_policy"},
                                          {"checkpoint.enable", "enable_checkpointing"},
                                          {"num_attention_heads", "base_num_query_heads"},
                                          {"gradient_checkpointing", "remat_policy"},
                                          {"per_device_train_batch_size", "per_device_batch_size"},
                                          {"weight_decay", "adam_weight_decay"}}) {
    EXPECT_NE(find_key(key), nullptr) << key;
    EXPECT_EQ(find_key(name), nullptr) << name;
    EXPECT_EQ(key_for_other_name(name), key);
    EXPECT_EQ(error("", {name + "=1"}),
              "command line " + name +
                  ": found an unknown key, expected one that --help lists; nearest: " + key);
  }
}

TEST_F(OtherNamesTest, AreNoneOfOursAndLeadToOneOfOurs) {
  for (const Key& key : config_keys()) EXPECT_EQ(key_for_other_name(key.name), "") << key.name;
  for (const auto& [name, key] : keys_by_other_name()) EXPECT_NE(find_key(key), nullptr) << name;
}

TEST_F(OtherNamesTest, SayWhyThereIsNoKey) {
  for (const auto& [name, reason] :
       {std::pair{"scan_layers", "leave it out: layers of one kind are always scanned"},
        {"parallelism.tensor_parallel_degree",
         "not offered: devices share data and weights alone"}}) {
    EXPECT_EQ(key_for_other_name(name), "");
    EXPECT_EQ(error("", {std::string(name) + "=1"}),
              std::string("command line ") + name +
                  ": found an unknown key, expected one that --help lists; " + reason);
  }
  for (const Key& key : config_keys()) EXPECT_EQ(reason_for_no_key(key.name), "") << key.name;
  for (const auto& [name, key] : keys_by_other_name()) EXPECT_EQ(reason_for_no_key(name), "");
}

TEST_F(OtherNamesTest, OfSectionsAreOurKeysWithinThem) {
  for (const std::string key : {"steps", "seed", "dataset_path"}) {
    const std::string found = error("", {"training." + key + "=1"});
    EXPECT_TRUE(found.ends_with("nearest: " + key)) << found;
  }
}

TEST_F(OtherNamesTest, LeaveMisspellingsAlone) {
  EXPECT_EQ(key_for_other_name("remat_polcy"), "");
  EXPECT_TRUE(error("", {"remat_polcy=full"}).ends_with("nearest: remat_policy"));
}

}  // namespace
}  // namespace longshore::trainer
