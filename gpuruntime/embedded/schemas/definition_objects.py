"""CustomResourceDefinitions as typed values, as far as the server reads them."""

from typing import Any

import msgspec


class Validation(msgspec.Struct):
    rule: str = ""
    message: str = ""
    fieldPath: str = ""
    reason: str = ""
    optionalOldSelf: bool = False


class Schema(msgspec.Struct):
    """JSONSchemaProps, as far as structural schemas need them."""

    type: str = ""
    format: str = ""
    pattern: str = ""
    nullable: bool = False
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusiveMinimum: bool = False
    exclusiveMaximum: bool = False
    multipleOf: int | float | None = None
    minLength: int | None = None
    maxLength: int | None = None
    minItems: int | None = None
    maxItems: int | None = None
    minProperties: int | None = None
    maxProperties: int | None = None
    default: Any = msgspec.UNSET
    enum: list[Any] = []
    required: list[str] = []
    properties: dict[str, "Schema"] = {}
    additionalProperties: "Schema | bool | None" = None
    items: "Schema | None" = None
    allOf: list["Schema"] = []
    anyOf: list["Schema"] = []
    oneOf: list["Schema"] = []
    none_of: "Schema | None" = msgspec.field(default=None, name="not")
    keeps_unknown: bool = msgspec.field(default=False, name="x-kubernetes-preserve-unknown-fields")
    is_either: bool = msgspec.field(default=False, name="x-kubernetes-int-or-string")
    is_embedded: bool = msgspec.field(default=False, name="x-kubernetes-embedded-resource")
    list_type: str = msgspec.field(default="", name="x-kubernetes-list-type")
    list_keys: list[str] = msgspec.field(default=[], name="x-kubernetes-list-map-keys")
    validations: list[Validation] = msgspec.field(default=[], name="x-kubernetes-validations")


class Validated(msgspec.Struct):
    openAPIV3Schema: Schema | None = None


class Subresources(msgspec.Struct):
    status: dict[str, Any] | None = None


class Column(msgspec.Struct):
    name: str = ""
    type: str = ""
    jsonPath: str = ""
    priority: int = 0
    format: str = ""
    description: str = ""


class SelectableField(msgspec.Struct):
    jsonPath: str = ""


class Version(msgspec.Struct):
    name: str = ""
    served: bool = False
    storage: bool = False
    schema: Validated | None = None
    subresources: Subresources | None = None
    additionalPrinterColumns: list[Column] = []
    selectableFields: list[SelectableField] = []


class Names(msgspec.Struct):
    plural: str = ""
    singular: str = ""
    kind: str = ""
    listKind: str = ""
    shortNames: list[str] = []
    categories: list[str] = []


class Conversion(msgspec.Struct):
    strategy: str = ""


class DefinitionSpec(msgspec.Struct):
    """The spec of a CustomResourceDefinition."""

    group: str = ""
    scope: str = ""
    names: Names = msgspec.field(default_factory=Names)
    versions: list[Version] = []
    conversion: Conversion | None = None
