// The colours of what pages and drawings fill, told apart by those who see few of them.
#pragma once

#include <string>

namespace longshore::trainer {

// For a page: a CSS variable for each, as "--forward", and a class that fills with it.
std::string page_palette();

// For an SVG file, which no page gives variables: the classes alone.
std::string svg_palette();

}  // namespace longshore::trainer
