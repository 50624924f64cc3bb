#include "longshore/data/images/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "longshore/base/error.h"
#include "tests/data/safetensors_samples.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

std::string decoded(std::string_view text) { return text_of(decode_base64(text)); }

std::string refusal(std::string_view text) {
  return message_of<DataError>([&] { decode_base64(text); });
}

// RFC 4648, section 10.
TEST(Base64, DecodesTheVectorsOfItsStandard) {
  EXPECT_EQ(decoded(""), "");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decoded("+/+/"), "\xfb\xff\xbf");
}

// Of all texts of two digits and padding, one stands for each byte.
TEST(Base64, HasOneTextForEachByte) {
  int accepted = 0;
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) try {
        decode_base64(std::string{static_cast<char>(first), static_cast<char>(second), '=', '='});
        ++accepted;
      } catch (const DataError&) {
      }
  EXPECT_EQ(accepted, 256);
}

TEST(Base64, RefusesAnythingElse) {
  EXPECT_THAT(refusal("Zm9"), HasSubstr("found 3 characters, expected a multiple of 4"));
  EXPECT_THAT(refusal("Zm9v\nYmFy\n\n\n"), HasSubstr("found \"\\n\" at character 5"));
  EXPECT_THAT(refusal("Zm 9"), HasSubstr("found \" \" at character 3"));
  EXPECT_THAT(refusal("Zm_-"), HasSubstr("found \"_\""));
  EXPECT_THAT(refusal("Zg==Zg=="), HasSubstr("found \"=\" at character 3"));
  EXPECT_THAT(refusal("Z==="), HasSubstr("found \"=\" at character 2"));
  EXPECT_THAT(refusal("===="), HasSubstr("found \"=\" at character 1"));
  EXPECT_THAT(refusal("Zh=="), HasSubstr("bits beyond the last byte"));
  EXPECT_THAT(refusal("Zm9="), HasSubstr("bits beyond the last byte"));
}

TEST(Base64, OfAnImageMayHaveAPrefix) {
  auto decoded = [](std::string_view text) { return text_of(decode_base64_image(text)); };
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("data:image/png;base64,Zm9v"), "foo");
  EXPECT_EQ(decoded("data:image/jpeg;base64,Zm8="), "fo");
  EXPECT_EQ(decoded("data:image/jpg;base64,"), "");
  for (const char* text : {"data:image/webp;base64,Zm9v", "data:image/png,Zm9v", "data:"})
    EXPECT_THAT(message_of<DataError>([&] { decode_base64_image(text); }),
                HasSubstr("expected data:image/png;base64, or"))
        << text;
}

}  // namespace
}  // namespace longshore::data
