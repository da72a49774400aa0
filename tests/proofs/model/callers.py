"""The moves of an attempt of the API: replay, claim, create and release, as in the product.

An attempt whose answer is lost reads once more or gives up; its request may still land. A crashed
replica is an attempt that gives up.
"""

from collections.abc import Iterable, Iterator

from tests.proofs.model.api_server import describe
from tests.proofs.model.caches import Seen, oldest, views
from tests.proofs.model.clauses import Clause
from tests.proofs.model.decisions import is_claimable
from tests.proofs.model.state import (
    NAMES,
    Attempt,
    Move,
    Order,
    Request,
    Scope,
    State,
    Step,
    Stock,
    Unit,
    Verb,
)

# The steps that wait for an answer, and the write that they have sent.
AWAITING = {
    Step.CLAIM: Verb.CLAIM,
    Step.RESTAMP: Verb.RESTAMP,
    Step.CREATE: Verb.CREATE,
    Step.RELEASE: Verb.RELEASE,
}


def moves(state: State, scope: Scope) -> Iterator[Move]:
    for number, attempt in enumerate(state.attempts):
        caller = Caller(scope, number)
        match attempt.step:
            case Step.REPLAY:
                if caller.has_turn(state):
                    yield from caller.replay(state)
            case Step.LIST:
                yield from caller.list(state)
            case Step.CLAIMED:
                yield caller.create(state)
                yield caller.crash(state)
            case Step.LOOK:
                yield caller.look(state)
                yield caller.crash(state)
            case Step.DONE:
                continue
            case _:
                yield from caller.lose_answer(state)


def after_answer(state: State, request: Request, scope: Scope, *, is_done: bool) -> Iterator[Move]:
    """Yield the moves of the attempt that has received the answer to its request."""
    caller = Caller(scope, request.sender)
    match request.verb:
        case Verb.CLAIM if is_done:
            yield caller.claim_succeeded(state, request)
        case Verb.CLAIM:
            yield from caller.claim_refused(state, request)
        case Verb.RESTAMP:
            yield caller.restamped(state, request, is_done=is_done)
        case Verb.CREATE:
            yield caller.created(state) if is_done else caller.name_in_use(state)
        case _:
            yield caller.ended(state)


class Caller:
    def __init__(self, scope: Scope, number: int) -> None:
        self._scope = scope
        self._number = number
        self._order: Order = scope.orders[number]
        self._who = f"attempt {number + 1}"

    def has_turn(self, state: State) -> bool:
        """Return whether no other attempt of the operation runs in this process."""
        for number, (other, order) in enumerate(
            zip(state.attempts, self._scope.orders, strict=True)
        ):
            is_peer = (order.operation, order.replica) == (
                self._order.operation,
                self._order.replica,
            )
            has_begun = other.step is not Step.REPLAY or other.round
            if number != self._number and is_peer and has_begun and other.step is not Step.DONE:
                return False
        return True

    def replay(self, state: State) -> Iterator[Move]:
        attempt = self._mine(state)
        if not attempt.round:
            is_late = any(name == self._order.operation for name, _ in state.history.ended)
            state = state.put_attempt(self._number, attempt._replace(is_late=is_late))
        yield from oldest(
            self._order.replica,
            (
                move
                for view, seen in views(state, self._order.replica)
                for move in self._replay_on(view, seen)
            ),
        )

    def _replay_on(self, state: State, seen: Seen) -> Iterator[Move]:
        cached = [each for each in seen.units_by_name if each and self._is_of_operation(each)]
        live = state.units_by_name[self._order.name]
        is_there = live is not None and self._is_ours(live)
        is_expected = bool(cached) or bool(self._mine(state).round)
        if cached and not any(self._is_ours(each) for each in cached):
            yield self._done(state, "conflict", "sees another unit of its operation")
        elif is_expected and self._has_tombstone(state) and not (is_there and self._trusts_units):
            yield self._done(
                state, "finished", "finds a tombstone, and its unit deleted or created again"
            )
        elif is_expected and is_there:
            yield self._done(state, "replayed", "finds its unit", live)
        elif not self._mine(state).round and self._is_taken(seen, live):
            yield self._done(state, "taken", "finds its name taken")
        else:
            yield from self._claim_on(state, seen)

    def _is_taken(self, seen: Seen, live: Unit | None) -> bool:
        is_cached = seen.units_by_name[self._order.name] is not None
        return is_cached and live is not None and not self._is_of_operation(live)

    def _claim_on(self, state: State, seen: Seen) -> Iterator[Move]:
        attempt = self._mine(state)
        for ordinal, stock in enumerate(seen.stock_by_ordinal):
            if not stock or not stock.mark or stock.mark.operation != self._order.operation:
                continue
            if stock.mark.body != self._order.body:
                yield self._done(state, "conflict", "sees its operation's claim for another body")
                return
            if (stock.uid, stock.version) not in attempt.passed:
                yield self._reuse_unfinished(state, ordinal, stock)
                return
        attempt = attempt._replace(sees_tombstone=self._has_tombstone(state))
        yield from self._pick(state.put_attempt(self._number, attempt), seen, "begins")

    def _reuse_unfinished(self, state: State, ordinal: int, stock: Stock) -> Move:
        if self._has_tombstone(state):
            return self._done(state, "finished", "finds the tombstone")
        return self._reuse(state, ordinal, stock)

    def _reuse(self, state: State, ordinal: int, stock: Stock) -> Move:
        if self._scope.keeps(Clause.RESTAMP):
            return self._send(state, Step.RESTAMP, ordinal, stock, "re-uses its operation's claim")
        attempt = self._mine(state)._replace(stock=ordinal, uid=stock.uid, version=stock.version)
        return self._hold(state, attempt, "goes on with its operation's claim", is_owned=False)

    def _pick(self, state: State, seen: Seen, why: str) -> Iterator[Move]:
        passed = {uid for uid, version in self._mine(state).passed if not version}
        named = {unit.source for unit in seen.units_by_name if unit}
        candidates = [
            (ordinal, stock)
            for ordinal, stock in enumerate(seen.stock_by_ordinal)
            if stock and is_claimable(stock, self._scope) and stock.uid not in passed | named
            if ordinal not in self._reserved(state)
        ]
        first = self._number if not self._scope.keeps(Clause.SAME_START) else 0
        if self._scope.is_ordered and candidates:
            candidates = [candidates[first % len(candidates)]]
        for ordinal, stock in candidates:
            yield self._send(state, Step.CLAIM, ordinal, stock, why)
        if not candidates and self._scope.keeps(Clause.LISTED):
            attempt = self._mine(state)._replace(step=Step.LIST)
            label = self._says(f"{why}, its cache shows no free stock")
            yield label, state.put_attempt(self._number, attempt)
        elif not candidates:
            yield self._without_stock(state, named)

    def list(self, state: State) -> Iterator[Move]:
        """Yield the moves after a consistent list, for which this process's writes have landed."""
        if self._reserved(state):
            return
        for ordinal, stock in enumerate(state.stock_by_ordinal):
            is_own = stock and stock.mark and stock.mark.operation == self._order.operation
            if stock and stock.mark and is_own and self._scope.keeps(Clause.OWN_IN_LIST):
                is_same = stock.mark.body == self._order.body
                yield (
                    self._reuse(state, ordinal, stock)
                    if is_same
                    else self._done(state, "conflict", "lists a claim for another body")
                )
                return
        yield from oldest(
            self._order.replica,
            (
                move
                for view, seen in views(state, self._order.replica)
                for move in self._claim_listed(view, seen)
            ),
        )

    def _claim_listed(self, state: State, seen: Seen) -> Iterator[Move]:
        named = {unit.source for unit in seen.units_by_name if unit}
        free = [
            (ordinal, stock)
            for ordinal, stock in enumerate(state.stock_by_ordinal)
            if stock and is_claimable(stock, self._scope) and stock.uid not in named
        ]
        for ordinal, stock in free:
            yield self._send(state, Step.CLAIM, ordinal, stock, "lists")
        if not free:
            yield self._without_stock(state, named)

    def _without_stock(self, state: State, named: set[int]) -> Move:
        unit = state.units_by_name[self._order.name]
        is_there = unit is not None and self._is_ours(unit)
        if self._mine(state).sees_tombstone and not (is_there and self._trusts_units):
            return self._done(state, "finished", "has no stock, and finds the tombstone")
        if is_there and self._scope.keeps(Clause.OWN_IN_LIST):
            return self._done(state, "replayed", "has no stock, and finds its unit", unit)
        if any(
            stock and is_claimable(stock, self._scope) and stock.uid not in named
            for stock in state.stock_by_ordinal
        ):
            state = state.fault("an attempt is refused for lack of stock while stock is free")
        marks = [stock.mark for stock in state.stock_by_ordinal if stock and stock.mark]
        has_claim = any(
            (mark.operation, mark.body) == (self._order.operation, self._order.body)
            for mark in marks
        )
        if has_claim or is_there:
            state = state.fault(
                "an attempt is refused for lack of stock while it has a claim or unit"
            )
        return self._done(state, "no stock", "finds no stock")

    def claim_succeeded(self, state: State, request: Request) -> Move:
        stock = state.stock_by_ordinal[request.target]
        version = stock.version if stock else 0
        attempt = self._mine(state)._replace(version=version)
        return self._hold(state, attempt, "holds the claim", is_owned=True)

    def _hold(self, state: State, attempt: Attempt, why: str, *, is_owned: bool) -> Move:
        """Hold the claim, or release it if a concurrent read has found the tombstone."""
        attempt = attempt._replace(step=Step.CLAIMED, is_owned=is_owned, sent=None)
        state = state.put_attempt(self._number, attempt)
        if attempt.sees_tombstone:
            return self._release(state, "finished", "finds the tombstone")
        return self._says(why), state

    def claim_refused(self, state: State, request: Request) -> Iterator[Move]:
        """Yield the moves after a refused claim; a read of the stock unit decides between them."""
        stock = state.stock_by_ordinal[request.target]
        looks = self._scope.keeps(Clause.LOOK_AFTER_CONFLICT)
        if looks and stock and stock.uid == request.uid:
            if is_claimable(stock, self._scope):
                yield self._send(state, Step.CLAIM, request.target, stock, "sees it still free")
                return
            if stock.mark and stock.mark.operation == self._order.operation:
                yield (
                    self._reuse(state, request.target, stock)
                    if stock.mark.body == self._order.body
                    else self._done(state, "conflict", "finds a claim for another body")
                )
                return
        attempt = self._mine(state)
        attempt = attempt._replace(
            step=Step.LIST, sent=None, passed=tuple(sorted({*attempt.passed, (request.uid, 0)}))
        )
        state = state.put_attempt(self._number, attempt)
        yield from oldest(
            self._order.replica,
            (
                move
                for view, seen in views(state, self._order.replica)
                for move in self._pick(view, seen, "goes on to the next candidate")
            ),
        )

    def restamped(self, state: State, request: Request, *, is_done: bool) -> Move:
        attempt = self._mine(state)
        if is_done:
            attempt = attempt._replace(version=request.version + 1)
            return self._hold(state, attempt, "has taken the claim over", is_owned=False)
        passed = tuple(sorted({*attempt.passed, (request.uid, request.version)}))
        return self._start_over(state, attempt._replace(passed=passed))

    def _start_over(self, state: State, attempt: Attempt) -> Move:
        again = Attempt(round=1, is_late=attempt.is_late, passed=attempt.passed)
        return self._says("starts over"), state.put_attempt(self._number, again)

    def create(self, state: State) -> Move:
        attempt = self._mine(state)
        request = Request(Verb.CREATE, self._number, attempt.stock, attempt.uid)
        attempt = attempt._replace(step=Step.CREATE, sent=request)
        label = self._says(f"sends {describe(request, self._scope)}")
        return label, state.put_attempt(self._number, attempt).send(request)

    def created(self, state: State) -> Move:
        unit = state.units_by_name[self._order.name]
        return self._done(state, "created", "has its unit", unit)

    def name_in_use(self, state: State) -> Move:
        """Read the object that has the name next: the answer was AlreadyExists."""
        attempt = self._mine(state)._replace(step=Step.LOOK, sent=None)
        return self._says("finds its name in use"), state.put_attempt(self._number, attempt)

    def refused(self, state: State) -> Move:
        return self._release(state, "refused", "is refused")

    def look(self, state: State) -> Move:
        unit, attempt = state.units_by_name[self._order.name], self._mine(state)
        if unit is None:
            return self._start_over(state, attempt)
        if not self._is_ours(unit):
            why = "conflict" if self._is_of_operation(unit) else "taken"
            return self._release(state, why, "reads a unit that is not its own")
        return self._answer(state, unit)

    def _answer(self, state: State, unit: Unit) -> Move:
        if unit.source == self._mine(state).uid:
            return self._done(state, "replayed", "reads its unit", unit)
        return self._release(state, "replayed", "reads its unit on another stock", unit)

    def lose_answer(self, state: State) -> Iterator[Move]:
        """Yield the moves without an answer. After a create the unit is read by name."""
        attempt = self._mine(state)
        if attempt.step is Step.RELEASE:
            yield self._done(state, attempt.answer, "gets no answer to its release")
            return
        yield self.crash(state)
        if attempt.step is not Step.CREATE:
            return
        unit = state.units_by_name[self._order.name]
        if unit and self._is_ours(unit):
            yield self._answer(state, unit)
        elif not self._scope.keeps(Clause.UNKNOWN_KEPT):
            yield self._release(state, "unknown", "does not know whether it has a unit")

    def crash(self, state: State) -> Move:
        return self._done(state, "unknown", "gives up, or crashes")

    def ended(self, state: State) -> Move:
        return self._done(state, self._mine(state).answer, "has released")

    def _release(self, state: State, answer: str, why: str, unit: Unit | None = None) -> Move:
        attempt = self._mine(state)
        if not attempt.is_owned and self._scope.keeps(Clause.OWNED_RELEASE):
            return self._done(state, answer, f"{why}, and leaves the claim it re-used", unit)
        request = Request(Verb.RELEASE, self._number, attempt.stock, attempt.uid, attempt.version)
        attempt = attempt._replace(
            step=Step.RELEASE, answer=answer, found=unit.uid if unit else 0, sent=request
        )
        label = self._says(f"{why}, sends {describe(request, self._scope)}")
        return label, state.put_attempt(self._number, attempt).send(request)

    def _send(self, state: State, step: Step, ordinal: int, stock: Stock, why: str) -> Move:
        request = Request(AWAITING[step], self._number, ordinal, stock.uid, stock.version)
        attempt = self._mine(state)._replace(
            step=step, stock=ordinal, uid=stock.uid, version=stock.version, sent=request
        )
        label = self._says(f"{why}, sends {describe(request, self._scope)}")
        return label, state.put_attempt(self._number, attempt).send(request)

    def _done(self, state: State, answer: str, why: str, unit: Unit | None = None) -> Move:
        was = self._mine(state)
        found = unit.uid if unit else was.found
        attempt = Attempt(step=Step.DONE, is_late=was.is_late, answer=answer, found=found)
        return self._says(f"{why}: {answer}"), state.put_attempt(self._number, attempt)

    def _reserved(self, state: State) -> set[int]:
        """Return the ordinals to which other attempts of this process are writing."""
        pairs: Iterable[tuple[int, Attempt]] = enumerate(state.attempts)
        return {
            attempt.stock
            for number, attempt in pairs
            if number != self._number
            and attempt.step in (Step.CLAIM, Step.RELEASE)
            and self._scope.orders[number].replica == self._order.replica
        }

    @property
    def _trusts_units(self) -> bool:
        return not self._scope.keeps(Clause.TOMBSTONE_DECIDES)

    def _has_tombstone(self, state: State) -> bool:
        return self._scope.keeps(Clause.LIVE_TOMBSTONE) and any(
            operation == self._order.operation for operation, _, _ in state.tombstones
        )

    def _is_of_operation(self, unit: Unit) -> bool:
        return unit.operation == self._order.operation

    def _is_ours(self, unit: Unit) -> bool:
        return (unit.operation, unit.body) == (self._order.operation, self._order.body)

    def _mine(self, state: State) -> Attempt:
        return state.attempts[self._number]

    def _says(self, what: str) -> str:
        order = self._order
        name = f"{order.operation}/{order.body} for {NAMES[order.name]} at replica {order.replica}"
        return f"{self._who} ({name}) {what}"
