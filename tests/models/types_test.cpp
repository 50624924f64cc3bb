#include "longshore/models/ir/types.h"

#include <gtest/gtest.h>

#include "longshore/base/error.h"

namespace longshore::models {
namespace {

TEST(Shape, CountsElementsAndRows) {
  Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.count(), 30);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.back(), 5);
  EXPECT_EQ(shape.with_back(7), (Shape{2, 3, 7}));
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_NE((Shape{6, 5}), shape);
  EXPECT_NE((Shape{1}), Shape{});
}

TEST(Shape, RefusesSizesThatCannotBe) {
  EXPECT_THROW((Shape{0}), InternalError);
  EXPECT_THROW((Shape{2, -1}), InternalError);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), InternalError);
  const int64_t large = int64_t{1} << 32;
  EXPECT_EQ((Shape{large, large / 4}).count(), int64_t{1} << 62);
  EXPECT_THROW((Shape{large, large}.count()), InternalError);
}

TEST(Type, KnowsItsBytesAndText) {
  EXPECT_EQ((Type{{8, 256, 320}, Dtype::bfloat16}).bytes(), 8 * 256 * 320 * 2);
  EXPECT_EQ((Type{{3}, Dtype::float64}).bytes(), 24);
  EXPECT_EQ((Type{{3}, Dtype::int32}).bytes(), 12);
  EXPECT_EQ((Type{{}, Dtype::float32}).bytes(), 4);
  EXPECT_EQ(text(Type{{8, 256, 320}, Dtype::bfloat16}), "bf16[8,256,320]");
  EXPECT_EQ(text(Type{{}, Dtype::float32}), "f32[]");
}

}  // namespace
}  // namespace longshore::models
