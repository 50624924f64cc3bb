// What a terminal can show. Every question is asked of the system anew: a window may have another
// size than before.
#pragma once

namespace longshore {

// Whether a line on it can be drawn over: it is a terminal, and TERM says that it is more than
// "dumb".
bool draws_in_place(int descriptor);

// Whether it also shows colours, and nobody has set NO_COLOR (https://no-color.org) to anything.
bool shows_colours(int descriptor);

// How many characters are beside each other; 80 where the terminal does not say.
int terminal_columns(int descriptor);

}  // namespace longshore
