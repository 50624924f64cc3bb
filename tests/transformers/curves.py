"""Two runs' evaluation losses as an SVG: their curves, and how far they are apart."""

COLOURS = ["#1f6fb4", "#d9680f"]
WIDTH, HEIGHT = 380, 260  # of a panel's axes
LEFT, TOP, GAP = 60, 40, 90


class Panel:
    """Axes with the ranges of what they show; `place` gives a point's coordinates."""

    def __init__(self, number, title, steps, low, high, ticks, tick_format):
        self.left = LEFT + number * (WIDTH + GAP)
        self.steps, self.low, self.high = steps, low, high
        bottom = TOP + HEIGHT
        self.parts = [f'<rect x="{self.left}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#888"/>',
                      text(self.left + WIDTH / 2, TOP - 14, title),
                      text(self.left + WIDTH / 2, bottom + 38, "steps")]
        for step in (0, steps // 2, steps):
            self.parts.append(text(self.place(step, low)[0], bottom + 18, f"{step}"))
        for tick in ticks:
            y = self.place(0, tick)[1]
            self.parts.append(f'<path d="M{self.left} {y:.1f}h{WIDTH}" stroke="#ddd"/>')
            self.parts.append(text(self.left - 8, y + 4, tick_format.format(tick), "end"))

    def place(self, step, value):
        return (self.left + WIDTH * step / self.steps,
                TOP + HEIGHT * (self.high - value) / (self.high - self.low))

    def line(self, points, colour):
        path = "L".join("{:.1f} {:.1f}".format(*self.place(*point)) for point in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')

    def circles(self, points, colour):
        for point in points:
            x, y = self.place(*point)
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="none" stroke="{colour}"/>')


def text(x, y, words, anchor="middle", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def svg(results, tolerance):
    """`results`: for each dtype {step: (Longshore's loss, transformers')}."""
    steps = max(next(iter(results.values())))
    losses = [loss for pairs in results.values() for pair in pairs.values() for loss in pair]
    low, high = int(min(losses)), int(max(losses)) + 1
    curves = Panel(0, "evaluation loss: Longshore (line), transformers (circles)", steps, low, high,
                   range(low, high + 1), "{}")
    differences = [abs(ours - theirs) for pairs in results.values() for ours, theirs in pairs.values()]
    most = 1.1 * max(tolerance, *differences)
    apart = Panel(1, f"Longshore - transformers; at the end within {tolerance}", steps, -most, most,
                  [-tolerance, 0, tolerance], "{:+.4f}")
    for number, ((dtype, pairs), colour) in enumerate(zip(results.items(), COLOURS)):
        curves.line([(step, ours) for step, (ours, _) in pairs.items()], colour)
        curves.circles([(step, theirs) for step, (_, theirs) in pairs.items()], colour)
        apart.line([(step, ours - theirs) for step, (ours, theirs) in pairs.items()], colour)
        curves.parts.append(text(curves.left + WIDTH - 12, TOP + 24 + 20 * number, dtype, "end", colour))
    width, height = LEFT + 2 * WIDTH + GAP + 30, TOP + HEIGHT + 55
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>', *curves.parts, *apart.parts, "</svg>"]) + "\n"
