// read_rows() has several threads read the rows of a batch.
#pragma once

#include <cstdint>
#include <functional>

namespace longshore::data {

// read(row) for each row below `rows`, on at most `threads` threads, the caller's among them; each
// takes the next row that is left. What is thrown for the first of the rows that fail is thrown
// here, when all threads are done. Rows behind one that failed may be left out.
void read_rows(int64_t rows, int64_t threads, const std::function<void(int64_t row)>& read);

}  // namespace longshore::data
