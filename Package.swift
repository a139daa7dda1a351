// swift-tools-version:6.2
import PackageDescription

let strict: [SwiftSetting] = [.swiftLanguageMode(.v6), .treatAllWarnings(as: .error)]

let package = Package(
  name: "docsfs",
  products: [
    .executable(name: "docsfs", targets: ["docsfs"]),
    .library(name: "StorageErrors", targets: ["StorageErrors"]),
    .library(name: "DocumentMigration", targets: ["DocumentMigration"]),
    .library(name: "Ubiquity", targets: ["Ubiquity"]),
  ],
  targets: [
    .systemLibrary(name: "CFuse", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CCrypto", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "CExpat", pkgConfig: "expat", providers: [.apt(["libexpat1-dev"])]),
    .systemLibrary(name: "CMicroHTTPD", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
    .target(name: "CLinux"),

    .target(name: "StorageErrors", swiftSettings: strict),
    .target(
      name: "Ubiquity",
      dependencies: ["StorageErrors", .target(name: "CLinux", condition: .when(platforms: [.linux]))],
      swiftSettings: strict),
    .target(
      name: "Faults", dependencies: ["StorageErrors"], resources: [.embedInCode("LinkProfiles.tsv")],
      swiftSettings: strict),
    .target(
      name: "Containers", dependencies: ["Faults", "StorageErrors", "CCrypto", "CCurl", "CExpat", "CLinux"],
      swiftSettings: strict),
    .target(
      name: "DocsEngine", dependencies: ["Containers", "CSQLite", "CLinux"],
      swiftSettings: strict),
    .target(
      name: "FuseBridge",
      dependencies: ["DocsEngine", "Containers", "Faults", "StorageErrors", "CFuse", "CLinux"],
      swiftSettings: strict),
    .target(
      name: "DocumentMigration",
      dependencies: [
        "StorageErrors", .target(name: "CCrypto", condition: .when(platforms: [.linux])),
        .target(name: "CLinux", condition: .when(platforms: [.linux])),
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "docsfs",
      dependencies: [
        "DocumentMigration",
        "FuseBridge", "DocsEngine", "Containers", "Faults", "StorageErrors", "CCrypto", "CLinux", "CMicroHTTPD",
      ],
      swiftSettings: strict),

    .target(
      name: "TestSupport",
      dependencies: ["Containers", "DocsEngine", "DocumentMigration", "StorageErrors", "CLinux"],
      path: "Tests/TestSupport", exclude: ["Servers"], swiftSettings: strict),
    .testTarget(
      name: "StorageErrorsTests", dependencies: ["StorageErrors", "TestSupport"], swiftSettings: strict),
    // Swift 5, as its author had it.
    .executableTarget(
      name: "ArticleMoves", dependencies: ["Ubiquity"], path: "Tests/ArticleMoves",
      swiftSettings: [.swiftLanguageMode(.v5)]),
    .testTarget(
      name: "FaultsTests", dependencies: ["Faults", "StorageErrors", "TestSupport"], exclude: ["Corpus"],
      swiftSettings: strict),
    .testTarget(
      name: "ContainersTests", dependencies: ["Containers", "Faults", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "DocsEngineTests", dependencies: ["DocsEngine", "Faults", "TestSupport"],
      exclude: ["Samples"], swiftSettings: strict),
    .testTarget(
      name: "DocumentMigrationTests",
      dependencies: ["DocumentMigration", "StorageErrors", "TestSupport", "CLinux"], swiftSettings: strict),
    .testTarget(
      name: "CommandLineTests", dependencies: ["docsfs", "DocumentMigration", "Containers", "DocsEngine", "Faults"],
      swiftSettings: strict),
    .testTarget(
      name: "MountedTests",
      dependencies: [
        "Faults", "Containers",
        "TestSupport", "DocumentMigration", "StorageErrors", "Ubiquity", "CLinux", "docsfs", "ArticleMoves",
      ],
      exclude: ["Programs"], swiftSettings: strict),
  ]
)
