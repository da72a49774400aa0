"""Reviews that Kubernetes answers: to which user a token belongs, and what a user may do."""

from typing import Final

import attrs

from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource


@attrs.frozen(kw_only=True, slots=True)
class ReviewedUser:
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class TokenReviewStatus:
    """If there are no audiences, the token is valid for the API server only."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()
    audiences: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class TokenReview:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    status: TokenReviewStatus = TokenReviewStatus()


@attrs.frozen(kw_only=True, slots=True)
class AccessReviewStatus:
    allowed: bool = False
    denied: bool = False


@attrs.frozen(kw_only=True, slots=True)
class SubjectAccessReview:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    status: AccessReviewStatus = AccessReviewStatus()


TOKEN_REVIEWS: Final = Resource(
    group="authentication.k8s.io",
    version="v1",
    kind="TokenReview",
    plural="tokenreviews",
    type=TokenReview,
    is_namespaced=False,
)
SUBJECT_ACCESS_REVIEWS: Final = Resource(
    group="authorization.k8s.io",
    version="v1",
    kind="SubjectAccessReview",
    plural="subjectaccessreviews",
    type=SubjectAccessReview,
    is_namespaced=False,
)
