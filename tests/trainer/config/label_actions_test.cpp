#include "longshore/trainer/config/label_actions.h"

#include <gtest/gtest.h>

namespace longshore::trainer {
namespace {

using offload::Action;
using Actions = std::map<std::string, Action>;

TEST(LabelActions, ASingleActionHoldsForAllLayersUnlessItIsOffload) {
  Config config;
  EXPECT_EQ(actions_in_first_layers(config), Actions());
  config.label_actions = {{"context", {"offload"}}, {"mlpwi", {"device"}}, {"out_proj", {"remat"}}};
  EXPECT_EQ(actions_in_first_layers(config), (Actions{{"context", Action::offload},
                                                      {"mlpwi", Action::keep},
                                                      {"out_proj", Action::remat}}));
  EXPECT_EQ(actions_in_other_layers(config), std::nullopt);
  config.label_actions["query_proj"] = {"remat", "offload"};
  EXPECT_EQ(actions_in_first_layers(config).at("query_proj"), Action::remat);
  EXPECT_EQ(actions_in_other_layers(config), (Actions{{"context", Action::keep},
                                                      {"mlpwi", Action::keep},
                                                      {"out_proj", Action::remat},
                                                      {"query_proj", Action::offload}}));
}

}  // namespace
}  // namespace longshore::trainer
