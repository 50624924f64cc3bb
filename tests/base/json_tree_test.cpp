#include "longshore/base/json_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;

constexpr const char* kOrdinary =
    R"({"b": [1, -2, 18446744073709551615, 0.5, 1e300, true, false, null, [], {}],)"
    R"( "a": {"x": "\u00e9\n\"", "w": {"deep": [[{"y": 1}]]}}, "": "", "c": -0.0})";

TEST(JsonTree, IsTheLibrarysWhereThatReadsTheText) {
  EXPECT_EQ(json_tree(kOrdinary), json::parse(kOrdinary));
  EXPECT_EQ(ordered_json_tree(kOrdinary), ordered_json::parse(kOrdinary));
  EXPECT_EQ(json_text(json_tree(kOrdinary)), json::parse(kOrdinary).dump(2) + "\n");
  EXPECT_EQ(json_text(ordered_json_tree(kOrdinary)), ordered_json::parse(kOrdinary).dump(2) + "\n");
  for (const char* scalar : {"1", "\"a\"", "null", "[]", "{}", "-1.5"}) {
    EXPECT_EQ(json_tree(scalar), json::parse(scalar));
    EXPECT_EQ(shown(json_tree(scalar)), scalar);
  }
}

// In all places, and of any size.
TEST(JsonTree, KeepsNumbersBeyondFloat64) {
  for (const std::string& number :
       {std::string("1e999"), std::string("-1E+999"), std::string("1.5e99999"),
        std::string("18446744073709551616"), std::string("-9223372036854775809"),
        std::string("1000000000000000019884624838656"), std::string(400, '9'),
        "-" + std::string(6000, '9')}) {
    const std::string text =
        "{\n  \"b\": " + number + ",\n  \"a\": [\n    " + number + ",\n    1\n  ]\n}\n";
    const ordered_json tree = ordered_json_tree(text);
    EXPECT_EQ(json_text(tree), text);
    EXPECT_EQ(json_tree(json_text(json_tree(text))), json_tree(text));
    EXPECT_EQ(shown(tree["b"]).substr(0, 100), number.substr(0, 100));
    EXPECT_FALSE(tree["b"].is_number() || tree["b"].is_string());
    EXPECT_EQ(as_float64(tree["b"]), std::strtod(number.c_str(), nullptr));
  }
  EXPECT_EQ(as_float64(json(3)), 3);
  EXPECT_TRUE(std::isnan(as_float64(json("3"))));
}

TEST(JsonTree, OfAKeyThatComesAgainTheLastValueCounts) {
  const char* text = R"({"b":1,"a":2,"b":{"c":3}})";
  EXPECT_EQ(json_tree(text), json::parse(R"({"a":2,"b":{"c":3}})"));
  EXPECT_EQ(ordered_json_tree(text), ordered_json::parse(R"({"b":{"c":3},"a":2})"));
}

TEST(JsonTree, RefusesWhatIsNoJsonOrTooDeep) {
  auto refusal = [](std::string_view text) {
    const std::string message = message_of<DataError>([&] { json_tree(text); });
    EXPECT_EQ(message_of<DataError>([&] { ordered_json_tree(text); }), message);
    return message;
  };
  EXPECT_EQ(refusal(""), "no valid JSON at byte 1: found the end");
  EXPECT_EQ(refusal(R"({"a": 1)"), "no valid JSON at byte 8: found the end");
  EXPECT_THAT(refusal("[1]]"), HasSubstr("no valid JSON at byte 4: found "));
  EXPECT_THAT(refusal("[NaN]"), HasSubstr("as in NaN or Infinity"));
  EXPECT_EQ(refusal(std::string_view("{}\0", 3)), "no valid JSON: found a zero at byte 2");
  EXPECT_EQ(refusal(std::string(33, '[') + std::string(33, ']')),
            "found values nested deeper than 32, expected less");
  EXPECT_EQ(refusal(std::string(1 << 20, '[')),
            "found values nested deeper than 32, expected less");
  EXPECT_EQ(json_tree(std::string(32, '[') + std::string(32, ']')).size(), 1u);
}

// 200,000 keys, which compared with all before them would take minutes.
TEST(JsonTree, TakesTimeThatIsLinearInTheKeys) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i)
    text += "\"key" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  text.back() = '}';
  const ordered_json tree = ordered_json_tree(text);
  EXPECT_EQ(tree.size(), 200000u);
  EXPECT_EQ(tree.get_ref<const ordered_json::object_t&>().back().first, "key199999");
  EXPECT_EQ(tree.get_ref<const ordered_json::object_t&>().back().second, 199999);
}

}  // namespace
}  // namespace longshore
