#include "longshore/data/files/json_place.h"

#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using nlohmann::json;

TEST(JsonPlace, ReadsWhatIsThere) {
  const json document = json::parse(R"({"a": {"b": [true, "x", 7]}, "none": null})");
  const JsonPlace root(document, "");
  const std::vector<JsonPlace> elements = root.at("a").at("b").elements();
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_TRUE(elements[0].boolean());
  EXPECT_EQ(elements[1].string(), "x");
  EXPECT_EQ(elements[2].integer(), 7u);
  EXPECT_EQ(elements[2].path(), "a/b/2");
  EXPECT_TRUE(root.has("a"));
  EXPECT_FALSE(root.has("none"));
  EXPECT_FALSE(root.has("other"));
  EXPECT_TRUE(root.boolean("other", true));
}

TEST(JsonPlace, ErrorsNameThePlaceExpectedAndFound) {
  const json document = json::parse(R"({"a": {"b": [true, "x", -7]}})");
  const JsonPlace root(document, ""), a = root.at("a"), b = a.at("b");
  auto refusal = [](auto read) { return message_of<DataError>(read); };
  EXPECT_EQ(refusal([&] { a.string(); }), "a: expected a string, found an object");
  EXPECT_EQ(refusal([&] { a.elements(); }), "a: expected an array, found an object");
  EXPECT_EQ(refusal([&] { b.at("c"); }), "a/b: expected an object, found an array");
  EXPECT_EQ(refusal([&] { b.elements()[1].boolean(); }),
            "a/b/1: expected true or false, found \"x\"");
  EXPECT_EQ(refusal([&] { b.elements()[2].integer(); }),
            "a/b/2: expected a whole number of at least 0, found -7");
  EXPECT_EQ(refusal([&] { a.at("c").string(); }), "a/c: expected a string, found null");
  EXPECT_EQ(refusal([&] { root.expect_keys({"b"}); }), "the file: \"a\" is not supported");
  EXPECT_EQ(refusal([&] { b.expect_keys({}); }), "a/b: expected an object, found an array");
}

}  // namespace
}  // namespace longshore::data
