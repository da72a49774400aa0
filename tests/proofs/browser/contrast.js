// Texts whose contrast to what is behind them is below what WCAG 2 asks for at AA.
(() => {
  const parse = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (front, back) => {
    const mix = (f, b) => f * front.a + b * (1 - front.a);
    return { r: mix(front.r, back.r), g: mix(front.g, back.g), b: mix(front.b, back.b), a: 1 };
  };
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color.a > 0) layers.push(color);
      if (color.a === 1) break;
    }
    return layers.reduceRight((back, front) => over(front, back), {
      r: 255,
      g: 255,
      b: 255,
      a: 1,
    });
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const value = part / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const isShown = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && getComputedStyle(element).visibility === "visible";
  };
  const hasText = (element) =>
    [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
  const root = document.querySelector("dialog") ?? document.body;
  return [...root.querySelectorAll("*")]
    .filter(
      (each) =>
        (hasText(each) || each.matches("input, select, textarea")) &&
        isShown(each) &&
        !each.disabled,
    )
    .map((each) => {
      const back = behind(each);
      return [
        each.tagName,
        each.className,
        each.textContent.slice(0, 30),
        ratio(over(parse(getComputedStyle(each).color), back), back),
      ];
    })
    .filter(([, , , found]) => found < 4.5);
})();
