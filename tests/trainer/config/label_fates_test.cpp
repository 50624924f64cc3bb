#include "trainer/config/label_fates.h"

#include <gtest/gtest.h>

namespace longshore::trainer {
namespace {

using offload::Fate;
using Fates = std::map<std::string, Fate>;

TEST(LabelFates, ASingleFateHoldsForAllLayersUnlessItIsOffload) {
  Config config;
  EXPECT_EQ(fates_in_first_layers(config), Fates());
  config.label_fates = {{"context", {"offload"}}, {"mlpwi", {"device"}}, {"out_proj", {"remat"}}};
  EXPECT_EQ(fates_in_first_layers(config),
            (Fates{{"context", Fate::offload}, {"mlpwi", Fate::keep}, {"out_proj", Fate::remat}}));
  EXPECT_EQ(fates_in_other_layers(config), std::nullopt);
  config.label_fates["query_proj"] = {"remat", "offload"};
  EXPECT_EQ(fates_in_first_layers(config).at("query_proj"), Fate::remat);
  EXPECT_EQ(fates_in_other_layers(config), (Fates{{"context", Fate::keep},
                                                  {"mlpwi", Fate::keep},
                                                  {"out_proj", Fate::remat},
                                                  {"query_proj", Fate::offload}}));
}

}  // namespace
}  // namespace longshore::trainer
