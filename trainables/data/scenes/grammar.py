"""Five English captions for a scene: a small grammar with synonyms, and with the omissions that people make."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trainables.data.scenes.scene import Scene, Thing, pick, random_generator, relation

CAPTIONS_PER_IMAGE = 5

NOUNS: Mapping[str, Sequence[str]] = {
    "circle": ("circle", "ball", "disc", "round shape"),
    "square": ("square", "box", "block"),
    "triangle": ("triangle", "pyramid", "three-sided shape"),
    "star": ("star", "five-pointed star"),
    "ring": ("ring", "hoop", "donut"),
    "cross": ("cross", "plus sign", "plus"),
    "diamond": ("diamond", "rhombus"),
    "heart": ("heart", "love heart"),
    "moon": ("crescent", "moon", "crescent moon"),
    "hexagon": ("hexagon", "six-sided shape"),
}
COLOUR_WORDS: Mapping[str, Sequence[str]] = {
    "red": ("red", "red", "crimson", "scarlet"),
    "orange": ("orange",),
    "yellow": ("yellow", "yellow", "golden"),
    "green": ("green", "green", "emerald"),
    "blue": ("blue", "blue", "dark blue"),
    "purple": ("purple", "violet"),
    "pink": ("pink", "pink", "rosy"),
    "brown": ("brown", "brown", "chocolate brown"),
    "black": ("black", "black", "pitch-black"),
    "white": ("white",),
    "gray": ("gray", "grey", "silver"),
    "turquoise": ("turquoise", "teal", "cyan"),
}
SIZE_WORDS: Mapping[str, Sequence[str]] = {
    "small": ("small", "little", "tiny"),
    "medium": ("medium-sized", "middle-sized"),
    "large": ("large", "big", "huge", "enormous"),
}
TEXTURE_WORDS: Mapping[str, Sequence[str]] = {
    "striped": ("striped", "stripy"),
    "dotted": ("dotted", "spotted", "polka-dot"),
    "checkered": ("checkered", "chequered", "checked"),
}
TEXTURE_PHRASES: Mapping[str, Sequence[str]] = {
    "striped": ("with stripes", "covered in stripes"),
    "dotted": ("with dots", "covered in spots"),
    "checkered": ("with a checkerboard pattern", "with squares on it"),
}
RELATION_PHRASES: Mapping[str, Sequence[str]] = {
    "left": ("to the left of", "left of", "on the left side of", "next to"),
    "right": ("to the right of", "right of", "on the right side of", "beside"),
    "above": ("above", "over", "higher than"),
    "below": ("below", "under", "beneath", "underneath"),
    "front": ("in front of", "partly covering", "overlapping"),
    "behind": ("behind", "partly hidden by"),
}
GROUND_PHRASES: Mapping[str, Sequence[str]] = {
    "grass": ("on the grass", "in a meadow", "on a green lawn"),
    "sky": ("in the sky", "in front of a cloudy sky", "among the clouds"),
    "sand": ("on the sand", "on a beach", "in the desert"),
    "night": ("in the night sky", "at night", "under the stars"),
    "bricks": ("on a brick wall", "in front of a wall of bricks"),
    "wood": ("on a wooden floor", "on wooden planks", "on a table of wood"),
    "water": ("on the water", "in the sea", "over the waves"),
    "snow": ("in the snow", "on a snowy field"),
    "tiles": ("on a tiled floor", "on kitchen tiles"),
    "sunset": ("at sunset", "in the evening sky", "in front of a setting sun"),
    "paper": ("on a sheet of paper", "on a plain wall", "on a plain background"),
}
NUMBERS = {1: ("a single", "only one"), 2: ("two", "a pair of"), 3: ("three", "a group of three")}
HIDDEN_NOUNS = ("thing", "object", "shape", "figure")


class Speaker:
    """Describes one scene, in words drawn at random."""

    def __init__(self, scene: Scene, generator: np.random.Generator) -> None:
        self.scene, self.generator = scene, generator

    def say(self, words: Sequence[str]) -> str:
        """Draw one of some synonyms."""
        return pick(self.generator, words)

    def happens(self, percent: int) -> bool:
        """Return ``True`` in this percentage of the calls."""
        return int(self.generator.integers(100)) < percent

    def name(self, thing: Thing, *, full: bool = False) -> str:
        """Name a thing with its article; unless ``full``, some of its attributes are left out."""
        plain = thing.texture == "plain"
        says_texture = not plain and (full or self.happens(65))
        adjectives = []
        if full or self.happens(10 if thing.size == "medium" else 50):
            adjectives.append(self.say(SIZE_WORDS[thing.size]))
        texture_first = self.happens(60)
        if says_texture and texture_first:
            adjectives.append(self.say(TEXTURE_WORDS[thing.texture]))
        if full or self.happens(80):
            adjectives.append(self.say(COLOUR_WORDS[thing.colour]))
        hides = not full and adjectives and self.happens(20)
        words = [*adjectives, self.say(HIDDEN_NOUNS) if hides else self.say(NOUNS[thing.shape])]
        if says_texture and not texture_first:
            words.append(self.say(TEXTURE_PHRASES[thing.texture]))
        article = "an" if words[0][0] in "aeiou" else "a"
        return f"{article} {' '.join(words)}"

    def names(self) -> str:
        """Name all things in a random order: ``a red ball, a box and a star``."""
        named = [self.name(self.scene.things[i]) for i in self.generator.permutation(len(self.scene.things))]
        return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"

    def ground(self) -> str:
        """Return a phrase about the ground."""
        return self.say(GROUND_PHRASES[self.scene.ground])

    def pair(self, *, full: bool = False) -> tuple[str, str, str]:
        """Return the names of two things, and between them the relation of the first to the second."""
        first, second = (int(i) for i in self.generator.permutation(len(self.scene.things))[:2])
        phrase = self.say(RELATION_PHRASES[relation(self.scene, first, second)])
        things = self.scene.things
        return self.name(things[first], full=full), phrase, self.name(things[second], full=full)


_VERBS = ("is", "lies", "floats", "can be seen")
_SIDES = {"left": "on the left side", "right": "on the right side", "centre": "in the middle"}


def _relation(speaker: Speaker) -> str:
    return " ".join(speaker.pair())


def _ground_first(speaker: Speaker) -> str:
    subject, phrase, other = speaker.pair()
    return f"{speaker.ground()}, {subject} {speaker.say(_VERBS)} {phrase} {other}"


def _counting(speaker: Speaker) -> str:
    number = speaker.say(NUMBERS[len(speaker.scene.things)])
    name = speaker.name(pick(speaker.generator, speaker.scene.things))
    return f"{number} {speaker.say(('things', 'shapes', 'objects'))} {speaker.ground()}, one of them is {name}"


def _standing(speaker: Speaker) -> str:
    verb = speaker.say(_VERBS)
    return f"{speaker.names()} {verb} {speaker.ground()}"


def _one_only(speaker: Speaker) -> str:
    name = speaker.name(pick(speaker.generator, speaker.scene.things))
    return f"{name} {speaker.say(('and something else', 'beside another thing'))} {speaker.ground()}"


_STYLES_OF_SEVERAL: Sequence[Callable[[Speaker], str]] = (
    _relation,
    _relation,
    lambda speaker: f"{_relation(speaker)} {speaker.ground()}",
    _ground_first,
    lambda speaker: f"{speaker.say(('there are', 'we see', 'a picture of', 'this shows'))} {speaker.names()}",
    lambda speaker: f"{speaker.names()} {speaker.ground()}",
    _counting,
    _one_only,
)
_STYLES_OF_ONE: Sequence[Callable[[Speaker], str]] = (
    lambda speaker: f"{speaker.say(('there is', 'we see', 'a picture of', 'this is'))} {speaker.names()}",
    _standing,
    lambda speaker: f"{speaker.ground()}, there is {speaker.say(('', 'only', 'just'))} {speaker.names()}",
    lambda speaker: (
        f"{speaker.names()} {_SIDES[speaker.scene.layout]} {speaker.say(('of the picture', 'of the image'))}"
    ),
    lambda speaker: f"{speaker.names()} {speaker.ground()}",
)


def write_captions(scene: Scene, seed: int, index: int) -> list[str]:
    """Return five different captions of scene number ``index``; the first caption leaves nothing out."""
    speaker = Speaker(scene, random_generator(seed, index, purpose=1))
    several = len(scene.things) > 1
    if several:
        subject, phrase, other = speaker.pair(full=True)
        words = f"{subject} is {phrase} {other} {speaker.ground() if speaker.happens(50) else ''}"
    else:
        words = f"{speaker.name(scene.things[0], full=True)} {speaker.ground()}"
    captions = [_sentence(words, speaker)]
    styles = _STYLES_OF_SEVERAL if several else _STYLES_OF_ONE
    while len(captions) < CAPTIONS_PER_IMAGE:
        style = styles[int(speaker.generator.integers(len(styles)))]
        caption = _sentence(style(speaker), speaker)
        if caption not in captions:
            captions.append(caption)
    return captions


def _sentence(words: str, speaker: Speaker) -> str:
    """Add a capital letter at the start and, mostly, a full stop, as people do."""
    text = " ".join(words.split())
    return text[0].upper() + text[1:] + ("." if speaker.happens(85) else "")
