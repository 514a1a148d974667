/**
 * Visible text of which the contrast with what is behind it is below 4.5, or 3 where it is large. Colours are resolved
 * by a canvas, whatever notation they have; backgrounds that let others through are put one over the other.
 */
() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;

  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
    return [dark ? "black" : "white", ...layers];
  };
  const painted = (layers) => {
    for (const colour of layers) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);

  const weak = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.data.trim();
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const layers = behind(element);
    const [light, deep] = [luminance(painted(layers)), luminance(painted([...layers, color]))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (deep + 0.05);
    const size = parseFloat(fontSize);
    const large = size >= 24 || (size >= 18.66 && fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) weak.add(`${text.slice(0, 40)}: ${ratio.toFixed(2)} (${color})`);
  }
  return [...weak];
};
