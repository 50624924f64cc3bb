// Draws a StepPicture: a row of HTML for each lane, what memory holds as an area, and the whole as
// an SVG file.
#pragma once

#include <string>

#include "longshore/trainer/report/step_picture.h"

namespace longshore::trainer {

// A row for each lane: its name, what it does when, and the part of the step that it works; below
// them the device's memory, where it is known, and the seconds, of which the axis has at least
// `axis_seconds`; and all of it in words.
std::string lanes_html(const StepPicture& picture, double axis_seconds = 0);

// What a kind of memory holds over a step, with a line at `measured_peak` bytes where that is above
// 0, and in numbers. `x_text` says what the axis is.
std::string memory_html(const MemoryPicture& picture, int64_t measured_peak,
                        const std::string& x_text);

// A whole SVG file of a given width, in light and dark colours, with a description in words.
std::string step_svg(const StepPicture& picture, const std::string& title);

}  // namespace longshore::trainer
